import java.time.Duration;
import java.util.*;
import org.apache.pulsar.client.api.v5.*;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/**
 * A V5 stream consumer that acknowledges everything it gets.
 *
 * <p>Arguments: service URL, topic, subscription, different messages to expect. It prints each value as it comes.
 */
public class Drain {
  static final Duration SILENCE_MAX = Duration.ofSeconds(60);

  public static void main(String[] words) throws Exception {
    PulsarClient client = PulsarClient.builder().serviceUrl(words[0]).build();
    StreamConsumer<String> consumer =
        client.newStreamConsumer(Schema.string()).topic(words[1]).subscriptionName(words[2])
            .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
    Set<String> known = new HashSet<>();
    while (known.size() < Integer.parseInt(words[3])) {
      Message<String> message = consumer.receive(SILENCE_MAX);
      if (message == null) {
        System.out.println("nothing came");
        System.out.flush();
        System.exit(2);
      }
      known.add(message.value());
      consumer.acknowledgeCumulative(message.id());
      System.out.println("got " + message.value());
      System.out.flush();
    }
    System.exit(0);
  }
}
