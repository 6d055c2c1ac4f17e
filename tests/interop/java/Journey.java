import java.time.Duration;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.client.api.v5.*;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/**
 * A V5 client that lives through whatever happens to its topic: a producer, and a stream or queue consumer.
 *
 * <p>Arguments: service URL, topic, subscription, kind ("stream" or "queue"), keys, rounds, different messages
 * to expect, and the first value: that of a message is a number that grows by one per key.
 * It prints "round N" as it goes, and one line "KEY n,n,n…" per key at the end. One message of each key is under
 * way at a time: this client does not keep more in order over a change of the layout.
 */
public class Journey {
  static final Duration SILENCE_MAX = Duration.ofSeconds(60);

  public static void main(String[] words) throws Exception {
    int keys = Integer.parseInt(words[4]), rounds = Integer.parseInt(words[5]), expected = Integer.parseInt(words[6]);
    int first = Integer.parseInt(words[7]);
    PulsarClient client = PulsarClient.builder().serviceUrl(words[0]).build();
    Map<String, StringBuilder> received = new TreeMap<>();
    Thread reading = new Thread(() -> read(client, words[1], words[2], words[3], expected, received));
    reading.start();
    try {
      send(client, words[1], keys, rounds, first);
    } catch (Exception failure) { // threads of the client would go on
      failure.printStackTrace();
      System.exit(2);
    }
    reading.join();
    received.forEach((key, values) -> System.out.println(key + " " + values));
    System.out.flush();
    System.exit(0);
  }

  static void send(PulsarClient client, String topic, int keys, int rounds, int first) throws Exception {
    Producer<String> producer = client.newProducer(Schema.string()).topic(topic).sendTimeout(Duration.ZERO).create();
    for (int round = 0; round < rounds; round++) {
      List<CompletableFuture<?>> sends = new ArrayList<>();
      for (int key = 0; key < keys; key++) {
        sends.add(send(producer, "key-" + key, String.valueOf(first + round)));
      }
      CompletableFuture.allOf(sends.toArray(new CompletableFuture[0])).get();
      System.out.println("round " + round);
    }
  }

  /**
   * Sends once more what the client itself refused before sending: it routes by one layout and then looks for the
   * segment in a newer one, when the layout changes between the two.
   */
  static CompletableFuture<MessageId> send(Producer<String> producer, String key, String value) {
    return producer.async().newMessage().key(key).value(value).send().exceptionallyCompose(
        failure -> String.valueOf(failure.getMessage()).contains("not found in active segments")
            ? send(producer, key, value)
            : CompletableFuture.failedFuture(failure));
  }

  static void read(
      PulsarClient client, String topic, String subscription, String kind, int expected, Map<String, StringBuilder> received) {
    try {
      if (kind.equals("stream")) {
        StreamConsumer<String> consumer =
            client.newStreamConsumer(Schema.string()).topic(topic).subscriptionName(subscription)
                .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
        Set<String> known = new HashSet<>();
        while (known.size() < expected && take(consumer.receive(SILENCE_MAX), received, known, consumer::acknowledgeCumulative)) {}
        consumer.close();
      } else {
        QueueConsumer<String> consumer =
            client.newQueueConsumer(Schema.string()).topic(topic).subscriptionName(subscription)
                .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
        Set<String> known = new HashSet<>();
        while (known.size() < expected && take(consumer.receive(SILENCE_MAX), received, known, consumer::acknowledge)) {}
        consumer.close();
      }
    } catch (Exception failure) {
      failure.printStackTrace();
      System.exit(2);
    }
  }

  static boolean take(
      Message<String> message,
      Map<String, StringBuilder> received,
      Set<String> known,
      java.util.function.Consumer<MessageId> acknowledge) {
    if (message == null) {
      return false;
    }
    String key = message.key().orElse("");
    known.add(key + "=" + message.value());
    StringBuilder values = received.computeIfAbsent(key, any -> new StringBuilder());
    if (values.length() > 0) {
      values.append(',');
    }
    values.append(message.value());
    acknowledge.accept(message.id());
    return true;
  }
}
