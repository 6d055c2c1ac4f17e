import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.schema.GenericRecord;

/**
 * Prints the values of topics as the client decodes them by the registered schemas.
 *
 * <p>Arguments: service URL, topics.
 */
public class Typed {
  public static void main(String[] words) throws Exception {
    try (PulsarClient client = PulsarClient.builder().serviceUrl(words[0]).build()) {
      for (int index = 1; index < words.length; index++) {
        try (Reader<GenericRecord> reader =
            client.newReader(Schema.AUTO_CONSUME()).topic(words[index])
                .startMessageId(MessageId.earliest).create()) {
          while (reader.hasMessageAvailable()) {
            GenericRecord value = reader.readNext().getValue();
            System.out.println(value.getSchemaType() + " " + value.getNativeObject());
          }
        }
      }
    }
  }
}
