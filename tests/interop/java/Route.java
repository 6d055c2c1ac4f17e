import java.util.*;
import java.util.concurrent.CompletableFuture;

/**
 * Sends keys k-0, k-1, … to a regular partitioned topic, once as a v4 client and once as a V5 client.
 *
 * <p>Arguments: service URL, topic, number of keys. The value tells the client.
 */
public class Route {
  public static void main(String[] words) {
    String url = words[0], topic = words[1];
    int keys = Integer.parseInt(words[2]);
    try {
      sendAsV4(url, topic, keys);
      sendAsV5(url, topic, keys);
      System.exit(0);
    } catch (Throwable failure) { // threads of the clients would go on
      failure.printStackTrace();
      System.exit(2);
    }
  }

  static void sendAsV4(String url, String topic, int keys) throws Exception {
    var client = org.apache.pulsar.client.api.PulsarClient.builder().serviceUrl(url).build();
    var producer =
        client
            .newProducer(org.apache.pulsar.client.api.Schema.STRING)
            .topic(topic)
            .hashingScheme(org.apache.pulsar.client.api.HashingScheme.Murmur3_32Hash)
            .maxPendingMessages(keys)
            .blockIfQueueFull(true)
            .create();
    List<CompletableFuture<?>> sends = new ArrayList<>();
    for (int number = 0; number < keys; number++) {
      sends.add(producer.newMessage().key("k-" + number).value("v4").sendAsync());
    }
    CompletableFuture.allOf(sends.toArray(new CompletableFuture[0])).get();
    client.close();
  }

  static void sendAsV5(String url, String topic, int keys) throws Exception {
    var client = org.apache.pulsar.client.api.v5.PulsarClient.builder().serviceUrl(url).build();
    var producer =
        client.newProducer(org.apache.pulsar.client.api.v5.schema.Schema.string()).topic(topic).create();
    List<CompletableFuture<?>> sends = new ArrayList<>();
    for (int number = 0; number < keys; number++) {
      sends.add(producer.async().newMessage().key("k-" + number).value("v5").send());
    }
    CompletableFuture.allOf(sends.toArray(new CompletableFuture[0])).get();
    client.close();
  }
}
