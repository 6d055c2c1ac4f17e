import java.util.Enumeration;
import java.util.Map;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** Apache BookKeeper's own client: write a ledger, leave one open, recover and print one. */
public class LedgerTool {
    public static void main(String[] words) {
        int code = 0;
        try {
            run(words);
        } catch (Throwable error) {
            error.printStackTrace(System.out);
            code = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code);  // the client's threads are no daemons
    }

    static void run(String[] words) throws Exception {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri("zk+hierarchical://" + words[0] + "/ledgers");
        settings.setUseV2WireProtocol(!words[1].equals("end"));
        BookKeeper client = new BookKeeper(settings);
        BookKeeper.DigestType digest = BookKeeper.DigestType.valueOf(words[2]);
        byte[] password = words[3].getBytes();
        if (words[1].equals("end")) {
            LedgerHandle ledger =
                client.openLedgerNoRecovery(Long.parseLong(words[4]), digest, password);
            System.out.println("end " + ledger.readLastConfirmed()
                + " " + ledger.readExplicitLastConfirmed());
            return;
        }
        if (words[1].equals("read")) {
            LedgerHandle ledger = client.openLedger(Long.parseLong(words[4]), digest, password);
            System.out.println("last " + ledger.getLastAddConfirmed() + " " + ledger.getLength());
            Enumeration<LedgerEntry> entries = ledger.getLastAddConfirmed() < 0
                ? java.util.Collections.emptyEnumeration()
                : ledger.readEntries(0, ledger.getLastAddConfirmed());
            while (entries.hasMoreElements()) {
                System.out.println("entry " + new String(entries.nextElement().getEntry()));
            }
            return;
        }
        int count = Integer.parseInt(words[4]);
        LedgerHandle ledger = client.createLedger(3, 2, 2, digest, password,
            Map.of("made-by", "java".getBytes()));
        for (int number = 0; number < count; number++) {
            ledger.addEntry(String.format("%020d", number).getBytes());
        }
        if (words[1].equals("write")) {
            ledger.close();
        }
        System.out.println("ledger " + ledger.getId());
    }
}
