import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.*;
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
    local.setRetention(topic, new RetentionPolicies(-1, -1));
    local.setMessageTTL(topic, 10);
    global.setMessageTTL(topic, 20);
    global.setMaxConsumers(topic, 4);
    local.setMaxProducers(topic, 3);
    local.setMaxMessageSize(topic, 1000);
    local.setDispatchRate(topic, DispatchRate.builder().dispatchThrottlingRateInMsg(7).build());
    local.setPublishRate(topic, new PublishRate(8, 9));
    local.setSubscribeRate(topic, new SubscribeRate(5, 6));
    local.setBacklogQuota(
        topic,
        BacklogQuota.builder()
            .limitSize(100)
            .retentionPolicy(BacklogQuota.RetentionPolicy.producer_exception)
            .build());
    local.setDelayedDeliveryPolicy(
        topic, DelayedDeliveryPolicies.builder().active(true).tickTime(50).maxDeliveryDelayInMillis(60).build());
    local.setInactiveTopicPolicies(
        topic, new InactiveTopicPolicies(InactiveTopicDeleteMode.delete_when_no_subscriptions, 99, true));
    local.setPersistence(topic, new PersistencePolicies(1, 1, 1, 2.5));
    local.setDeduplicationStatus(topic, true);
    local.setCompactionThreshold(topic, 1 << 20);
    local.setSchemaCompatibilityStrategy(topic, SchemaCompatibilityStrategy.FORWARD);
    local.setSubscriptionTypesEnabled(topic, Set.of(SubscriptionType.Shared));
    local.setSubscriptionDispatchRate(topic, "sub", DispatchRate.builder().dispatchThrottlingRateInMsg(3).build());

    say("retention", local.getRetention(topic).getRetentionTimeInMinutes());
    say("ttl", local.getMessageTTL(topic));
    say("global ttl", global.getMessageTTL(topic));
    say("global maxProducers", global.getMaxProducers(topic));
    say("maxConsumers", local.getMaxConsumers(topic));
    say("applied maxConsumers", local.getMaxConsumers(topic, true));
    say("maxProducers", local.getMaxProducers(topic));
    say("maxMessageSize", local.getMaxMessageSize(topic));
    say("dispatchRate", local.getDispatchRate(topic).getDispatchThrottlingRateInMsg());
    say("publishRate", local.getPublishRate(topic).publishThrottlingRateInMsg);
    say("subscribeRate", local.getSubscribeRate(topic).subscribeThrottlingRatePerConsumer);
    say("quota", local.getBacklogQuotaMap(topic).get(BacklogQuota.BacklogQuotaType.destination_storage).getLimitSize());
    say("delay", local.getDelayedDeliveryPolicy(topic).getMaxDeliveryDelayInMillis());
    say("inactive", local.getInactiveTopicPolicies(topic).getMaxInactiveDurationSeconds());
    say("persistence", local.getPersistence(topic).getManagedLedgerMaxMarkDeleteRate());
    say("dedup", local.getDeduplicationStatus(topic));
    say("compaction", local.getCompactionThreshold(topic));
    say("schema", local.getSchemaCompatibilityStrategy(topic, false));
    say("types", local.getSubscriptionTypesEnabled(topic));
    say("sub rate", local.getSubscriptionDispatchRate(topic, "sub", false).getDispatchThrottlingRateInMsg());
    local.removeMessageTTL(topic);
    say("removed ttl", local.getMessageTTL(topic));
    say("applied ttl", local.getMessageTTL(topic, true));
    try {
      local.setMaxProducers(topic, -1);
      say("negative", "accepted");
    } catch (PulsarAdminException refusal) {
      say("negative", refusal.getStatusCode());
    }
    local.deleteTopicPolicies(topic);
    say("deleted", local.getMaxProducers(topic));
    local.setMaxProducers(topic, 2);
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
