import java.util.*; import java.util.concurrent.*; import java.util.concurrent.atomic.*;
import org.apache.pulsar.client.api.*; import org.apache.pulsar.client.api.transaction.Transaction;
/** Transactions with the classic Java client: TransactionBench URL seconds size messages topics inFlight. */
public class TransactionBench {
  static final byte[][] PAYLOAD = new byte[1][];

  public static void main(String[] a) throws Exception {
    String url = a[0]; double secs = Double.parseDouble(a[1]); int size = Integer.parseInt(a[2]), messages = Integer.parseInt(a[3]), topics = Integer.parseInt(a[4]), inFlight = Integer.parseInt(a[5]);
    PAYLOAD[0] = new byte[size];
    String base = "persistent://public/default/tb" + Long.toHexString(System.nanoTime());
    try (PulsarClient c = PulsarClient.builder().serviceUrl(url).enableTransaction(true).ioThreads(1).memoryLimit(0, SizeUnit.BYTES).build()) {
      List<Producer<byte[]>> ps = new ArrayList<>();
      for (int i = 0; i < topics; i++) ps.add(c.newProducer().topic(base + "-" + i).enableBatching(false).maxPendingMessages(50_000).sendTimeout(0, TimeUnit.SECONDS).create());
      LongAdder done = new LongAdder(), failed = new LongAdder(); org.HdrHistogram.Recorder commits = new org.HdrHistogram.Recorder(120_000_000L, 3);
      Semaphore places = new Semaphore(inFlight);
      long warm = System.nanoTime() + 5_000_000_000L, end = warm + (long) (secs * 1e9), began = 0, before = 0, used = 0; boolean counting = false;
      while (System.nanoTime() < end) {
        if (!counting && System.nanoTime() > warm) { counting = true; began = System.nanoTime(); before = done.sum(); used = cpu(); commits.reset(); }
        places.acquire();
        run(c, ps, messages, commits).whenComplete((nothing, error) -> { places.release(); (error == null ? done : failed).increment(); });
      }
      long stop = System.nanoTime(), got = done.sum() - before, spent = cpu() - used;
      places.acquire(inFlight);
      var h = commits.getIntervalHistogram();
      System.out.printf(Locale.ROOT, "{\"measure\":\"java-transactions\",\"size\":%d,\"messages\":%d,\"topics\":%d,\"in_flight\":%d,\"transactions\":%d,\"all\":%d,\"failed\":%d,\"transactions_per_s\":%.1f,\"commit_p50_ms\":%.2f,\"commit_p99_ms\":%.2f,\"client_ms\":%.3f}%n",
          size, messages, topics, inFlight, got, done.sum(), failed.sum(), got / ((stop - began) / 1e9), h.getValueAtPercentile(50) / 1000.0, h.getValueAtPercentile(99) / 1000.0, spent / 1e6 / got);
    }
  }

  /** Nanoseconds of the processor that this process has used. */
  static long cpu() { return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime(); }

  /** Commit is measured from the last receipt to its answer. */
  static CompletableFuture<Void> run(PulsarClient c, List<Producer<byte[]>> ps, int messages, org.HdrHistogram.Recorder commits) {
    return c.newTransaction().withTransactionTimeout(60, TimeUnit.SECONDS).build().thenCompose(t -> {
      CompletableFuture<?>[] sent = new CompletableFuture<?>[messages];
      for (int i = 0; i < messages; i++) sent[i] = ps.get(i % ps.size()).newMessage(t).value(PAYLOAD[0]).sendAsync();
      return CompletableFuture.allOf(sent).thenCompose(nothing -> {
        long start = System.nanoTime();
        return t.commit().thenRun(() -> commits.recordValue(Math.min(119_000_000L, (System.nanoTime() - start) / 1000)));
      });
    });
  }
}
