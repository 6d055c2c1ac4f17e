import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.*;
import org.apache.pulsar.client.admin.TopicPolicies;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.common.events.PulsarEvent;
import org.apache.pulsar.common.policies.data.*;

/**
 * Sets the policies of a topic as an administrator does, reads them back, then reads the events that tell of them
 * with the schema that Apache Pulsar's brokers have for them.
 *
 * <p>Arguments: admin URL, service URL, topic, `events` to read them. Prints one line for each value and event.
 */
public class Policies {
  public static void main(String[] words) {
    try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(words[0]).build()) {
      administer(admin, words[2]);
      if (words[3].equals("events")) {
        readEvents(words[1], words[2]);
      }
      System.exit(0);
    } catch (Throwable failure) { // threads of the clients would go on
      failure.printStackTrace();
      System.exit(2);
    }
  }

  static void administer(PulsarAdmin admin, String topic) throws Exception {
    admin.topics().createNonPartitionedTopic(topic);
    var local = admin.topicPolicies();
    var global = admin.topicPolicies(true);
    setEach("local", admin, local, topic);
    setEach("global", admin, global, topic);
    scopes(local, global, topic);
    refuse("negative", () -> local.setMaxProducers(topic, -1));
    refuse("quorums", () -> local.setPersistence(topic, new PersistencePolicies(2, 3, 1, 0)));
    refuse("filter", () -> local.setEntryFiltersPerTopic(topic, new EntryFilters("nobody")));
    local.setMaxProducers(topic, 3);
    local.deleteTopicPolicies(topic);
    say("deleted", local.getMaxProducers(topic));
    local.setMaxProducers(topic, 2);
  }

  /** Sets each policy there is, reads it, removes it, and looks whether it is gone. */
  static void setEach(String scope, PulsarAdmin admin, TopicPolicies in, String topic) throws Exception {
    var rate = DispatchRate.builder().dispatchThrottlingRateInMsg(7).dispatchThrottlingRateInByte(70).build();
    var quota =
        BacklogQuota.builder().limitSize(100).retentionPolicy(BacklogQuota.RetentionPolicy.producer_exception).build();
    var age = BacklogQuota.BacklogQuotaType.message_age;
    var delay = DelayedDeliveryPolicies.builder().active(true).tickTime(50).maxDeliveryDelayInMillis(60).build();
    var idle = new InactiveTopicPolicies(InactiveTopicDeleteMode.delete_when_no_subscriptions, 99, true);
    var offload = OffloadPolicies.builder().managedLedgerOffloadDriver("filesystem").build();
    var creation = AutoSubscriptionCreationOverride.builder().allowAutoSubscriptionCreation(true).build();
    turn(scope, "retention", () -> in.setRetention(topic, new RetentionPolicies(-1, -1)),
        () -> in.getRetention(topic), () -> in.removeRetention(topic));
    turn(scope, "quota", () -> in.setBacklogQuota(topic, quota),
        () -> in.getBacklogQuotaMap(topic).get(BacklogQuota.BacklogQuotaType.destination_storage),
        () -> in.removeBacklogQuota(topic));
    turn(scope, "age quota", () -> in.setBacklogQuota(topic, quota, age),
        () -> in.getBacklogQuotaMap(topic).get(age), () -> in.removeBacklogQuota(topic, age));
    turn(scope, "delay", () -> in.setDelayedDeliveryPolicy(topic, delay),
        () -> in.getDelayedDeliveryPolicy(topic), () -> in.removeDelayedDeliveryPolicy(topic));
    turn(scope, "expiration", () -> in.setSubscriptionExpirationTime(topic, 5),
        () -> in.getSubscriptionExpirationTime(topic), () -> in.removeSubscriptionExpirationTime(topic));
    turn(scope, "ttl", () -> in.setMessageTTL(topic, 10),
        () -> in.getMessageTTL(topic), () -> in.removeMessageTTL(topic));
    turn(scope, "unacked of a consumer", () -> in.setMaxUnackedMessagesOnConsumer(topic, 11),
        () -> in.getMaxUnackedMessagesOnConsumer(topic), () -> in.removeMaxUnackedMessagesOnConsumer(topic));
    turn(scope, "unacked of a subscription", () -> in.setMaxUnackedMessagesOnSubscription(topic, 12),
        () -> in.getMaxUnackedMessagesOnSubscription(topic), () -> in.removeMaxUnackedMessagesOnSubscription(topic));
    turn(scope, "inactive", () -> in.setInactiveTopicPolicies(topic, idle),
        () -> in.getInactiveTopicPolicies(topic), () -> in.removeInactiveTopicPolicies(topic));
    turn(scope, "offload", () -> in.setOffloadPolicies(topic, offload),
        () -> driver(in.getOffloadPolicies(topic)), () -> in.removeOffloadPolicies(topic));
    turn(scope, "persistence", () -> in.setPersistence(topic, new PersistencePolicies(2, 2, 1, 2.5)),
        () -> in.getPersistence(topic), () -> in.removePersistence(topic));
    turn(scope, "dedup", () -> in.setDeduplicationStatus(topic, true),
        () -> in.getDeduplicationStatus(topic), () -> in.removeDeduplicationStatus(topic));
    turn(scope, "dedup interval", () -> in.setDeduplicationSnapshotInterval(topic, 13),
        () -> in.getDeduplicationSnapshotInterval(topic), () -> in.removeDeduplicationSnapshotInterval(topic));
    turn(scope, "dispatch", () -> in.setDispatchRate(topic, rate),
        () -> in.getDispatchRate(topic), () -> in.removeDispatchRate(topic));
    turn(scope, "subscription dispatch", () -> in.setSubscriptionDispatchRate(topic, rate),
        () -> in.getSubscriptionDispatchRate(topic), () -> in.removeSubscriptionDispatchRate(topic));
    turn(scope, "one subscription", () -> in.setSubscriptionDispatchRate(topic, "s", rate),
        () -> in.getSubscriptionDispatchRate(topic, "s"), () -> in.removeSubscriptionDispatchRate(topic, "s"));
    turn(scope, "replicator", () -> in.setReplicatorDispatchRate(topic, rate),
        () -> in.getReplicatorDispatchRate(topic), () -> in.removeReplicatorDispatchRate(topic));
    turn(scope, "publish", () -> in.setPublishRate(topic, new PublishRate(8, 9)),
        () -> in.getPublishRate(topic), () -> in.removePublishRate(topic));
    turn(scope, "subscribe", () -> in.setSubscribeRate(topic, new SubscribeRate(5, 6)),
        () -> in.getSubscribeRate(topic), () -> in.removeSubscribeRate(topic));
    turn(scope, "compaction", () -> in.setCompactionThreshold(topic, 1 << 20),
        () -> in.getCompactionThreshold(topic), () -> in.removeCompactionThreshold(topic));
    turn(scope, "producers", () -> in.setMaxProducers(topic, 14),
        () -> in.getMaxProducers(topic), () -> in.removeMaxProducers(topic));
    turn(scope, "consumers", () -> in.setMaxConsumers(topic, 15),
        () -> in.getMaxConsumers(topic), () -> in.removeMaxConsumers(topic));
    turn(scope, "consumers of a subscription", () -> in.setMaxConsumersPerSubscription(topic, 16),
        () -> in.getMaxConsumersPerSubscription(topic), () -> in.removeMaxConsumersPerSubscription(topic));
    turn(scope, "subscriptions", () -> in.setMaxSubscriptionsPerTopic(topic, 17),
        () -> in.getMaxSubscriptionsPerTopic(topic), () -> in.removeMaxSubscriptionsPerTopic(topic));
    turn(scope, "message size", () -> in.setMaxMessageSize(topic, 1000),
        () -> in.getMaxMessageSize(topic), () -> in.removeMaxMessageSize(topic));
    turn(scope, "types", () -> in.setSubscriptionTypesEnabled(topic, Set.of(SubscriptionType.Shared)),
        () -> in.getSubscriptionTypesEnabled(topic), () -> in.removeSubscriptionTypesEnabled(topic));
    turn(scope, "schema", () -> in.setSchemaCompatibilityStrategy(topic, SchemaCompatibilityStrategy.FORWARD),
        () -> in.getSchemaCompatibilityStrategy(topic, false), () -> in.removeSchemaCompatibilityStrategy(topic));
    turn(scope, "creation", () -> in.setAutoSubscriptionCreation(topic, creation),
        () -> in.getAutoSubscriptionCreation(topic, false), () -> in.removeAutoSubscriptionCreation(topic));
    turn(scope, "pause", () -> in.setDispatcherPauseOnAckStatePersistent(topic).get(),
        () -> in.getDispatcherPauseOnAckStatePersistent(topic, false).get(),
        () -> in.removeDispatcherPauseOnAckStatePersistent(topic).get());
    turn(scope, "filters", () -> { }, () -> in.getEntryFiltersPerTopic(topic, false),
        () -> in.removeEntryFiltersPerTopic(topic));
    turn(scope, "clusters", () -> in.setReplicationClusters(topic, List.of("standalone")).get(),
        () -> in.getReplicationClusters(topic, false), () -> in.removeReplicationClusters(topic));
    turn(scope, "validation", () -> admin.topics().setSchemaValidationEnforced(topic, true),
        () -> admin.topics().getSchemaValidationEnforced(topic, false),
        () -> admin.topics().setSchemaValidationEnforced(topic, false));
  }

  static void scopes(TopicPolicies local, TopicPolicies global, String topic) throws Exception {
    local.setMessageTTL(topic, 10);
    global.setMessageTTL(topic, 20);
    say("applied ttl", local.getMessageTTL(topic, true));
    local.removeMessageTTL(topic);
    say("applied global ttl", local.getMessageTTL(topic, true));
    say("ttl of all clusters", global.getMessageTTL(topic));
  }

  interface Action {
    void run() throws Exception;
  }

  interface Question {
    Object ask() throws Exception;
  }

  static void turn(String scope, String what, Action set, Question get, Action remove) throws Exception {
    set.run();
    say(scope + " " + what, get.ask());
    remove.run();
    say("removed " + scope + " " + what, get.ask());
  }

  static void refuse(String what, Action action) throws Exception {
    try {
      action.run();
      say(what, "accepted");
    } catch (PulsarAdminException refusal) {
      say(what, refusal.getStatusCode());
    }
  }

  static Object driver(OffloadPolicies policies) {
    return policies == null ? null : policies.getManagedLedgerOffloadDriver();
  }

  static void readEvents(String url, String topic) throws Exception {
    String events = topic.substring(0, topic.lastIndexOf('/')) + "/__change_events";
    try (PulsarClient client = PulsarClient.builder().serviceUrl(url).build();
        Reader<PulsarEvent> reader =
            client.newReader(Schema.AVRO(PulsarEvent.class))
                .topic(events).startMessageId(MessageId.earliest).readCompacted(true).create()) {
      while (reader.hasMessageAvailable()) {
        Message<PulsarEvent> message = reader.readNext(10, TimeUnit.SECONDS);
        PulsarEvent event = message.getValue();
        Object limit = event == null ? "gone" : event.getTopicPoliciesEvent().getPolicies().getMaxProducerPerTopic();
        System.out.println("event " + message.getKey() + " " + limit);
      }
    }
  }

  static void say(String what, Object value) {
    System.out.println(what + " = " + value);
  }
}
