import java.util.Enumeration;
import java.util.Map;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** Apache BookKeeper's own client: write ledgers, leave some open, recover and print them. */
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
        byte[] password = words[2].getBytes();
        // Pairs of words: a digest and a ledger, or a digest and what to do with a new ledger.
        for (int place = 3; place < words.length; place += 2) {
            BookKeeper.DigestType digest = BookKeeper.DigestType.valueOf(words[place]);
            String what = words[place + 1];
            switch (words[1]) {
                case "end" -> end(client.openLedgerNoRecovery(Long.parseLong(what), digest, password));
                case "read" -> read(client.openLedger(Long.parseLong(what), digest, password));
                default -> write(client, digest, password, what.equals("close"));
            }
        }
    }

    static void end(LedgerHandle ledger) throws Exception {
        System.out.println("end " + ledger.readLastConfirmed()
            + " " + ledger.readExplicitLastConfirmed());
    }

    static void read(LedgerHandle ledger) throws Exception {
        System.out.println("last " + ledger.getLastAddConfirmed() + " " + ledger.getLength());
        if (ledger.getLastAddConfirmed() < 0) {
            return;
        }
        Enumeration<LedgerEntry> entries = ledger.readEntries(0, ledger.getLastAddConfirmed());
        while (entries.hasMoreElements()) {
            System.out.println("entry " + new String(entries.nextElement().getEntry()));
        }
    }

    static void write(BookKeeper client, BookKeeper.DigestType digest, byte[] password,
            boolean isClosed) throws Exception {
        LedgerHandle ledger = client.createLedger(3, 2, 2, digest, password,
            Map.of("made-by", "java".getBytes()));
        for (int number = 0; number < 30; number++) {
            ledger.addEntry(String.format("%020d", number).getBytes());
        }
        if (isClosed) {
            ledger.close();
        }
        System.out.println("ledger " + ledger.getId());
    }
}
