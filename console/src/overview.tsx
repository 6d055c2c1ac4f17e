import { useRef } from "preact/hooks";
import type { Session } from "./app";
import { bytes, lag, seconds, short, whole } from "./format";
import { Card, LiveMark, Note, Stat, Trend, useTrend, useWatch } from "./ui";

export interface Sums {
  parts: number;
  msgRateIn: number;
  msgRateOut: number;
  bytesRateIn: number;
  bytesRateOut: number;
  storageSize: number;
  producers: number;
  consumers: number;
  subscriptions: number;
  lag: number;
  isLagExact: boolean;
}

interface Process {
  trouble: string;
  connections: number;
  cpuSeconds: number;
  residentBytes: number;
  loopLooks: number;
  loopHeldSeconds: number;
  loopHeldLongestSeconds: number;
  queuedBytes: number;
  unsyncedBytes: number;
  journal_syncs?: number;
  journal_groups?: number;
  migrations: Record<string, number>;
  legacyRefusals: Record<string, number>;
}

interface State {
  atMs: number;
  startedMs: number;
  brokerId: string;
  topics: Sums;
  broker?: Process;
}

/** How fast something grew between the last two states. */
function useGrowth(value: number | undefined, atMs: number | undefined): number {
  const before = useRef<{ value: number; atMs: number; rate: number } | null>(null);
  if (value !== undefined && atMs !== undefined && before.current?.atMs !== atMs) {
    const last = before.current;
    const rate = last && atMs > last.atMs ? ((value - last.value) / (atMs - last.atMs)) * 1000 : 0;
    before.current = { value, atMs, rate };
  }
  return before.current?.rate ?? 0;
}

export function Overview(props: { session: Session }) {
  const { state, problem, connection } = useWatch<State>("/console/api/overview");
  const inward = useTrend(state?.topics.msgRateIn);
  const outward = useTrend(state?.topics.msgRateOut);
  const cpu = useGrowth(state?.broker?.cpuSeconds, state?.atMs);
  const syncs = useGrowth(state?.broker?.journal_syncs, state?.atMs);
  const held = useGrowth(state?.broker?.loopHeldSeconds, state?.atMs);
  const looks = useGrowth(state?.broker?.loopLooks, state?.atMs);
  const late = looks > 0 ? held / looks : 0;
  if (!state) return problem ? <Note tone="bad">{problem}</Note> : <p class="empty">Loading…</p>;
  const { topics, broker } = state;
  return (
    <>
      <div class="head">
        <h1>{props.session.cluster}</h1>
        <span class="soft">{state.brokerId}</span>
        <LiveMark connection={connection} />
      </div>
      {broker?.trouble && <Note tone="bad">{broker.trouble}</Note>}
      <div class="grid">
        <Card title="Published">
          <dl class="stats">
            <Stat label="Messages per second" value={short(topics.msgRateIn)} />
            <Stat label="Bytes per second" value={bytes(topics.bytesRateIn)} />
          </dl>
          <Trend values={inward} label="Messages published per second, the last minute" />
        </Card>
        <Card title="Delivered">
          <dl class="stats">
            <Stat label="Messages per second" value={short(topics.msgRateOut)} />
            <Stat label="Bytes per second" value={bytes(topics.bytesRateOut)} />
          </dl>
          <Trend values={outward} label="Messages delivered per second, the last minute" />
        </Card>
        <Card title="What is there" wide>
          <dl class="stats">
            <Stat label="Topics in use" value={whole(topics.parts)} />
            <Stat label="Subscriptions" value={whole(topics.subscriptions)} />
            <Stat label="Producers" value={whole(topics.producers)} />
            <Stat label="Consumers" value={whole(topics.consumers)} />
            <Stat label="Lag, in messages" value={lag(topics.lag, topics.isLagExact)} detail="slowest subscription of each topic" />
            <Stat label="Stored" value={bytes(topics.storageSize)} />
          </dl>
        </Card>
        {broker && (
          <Card title="This broker" wide>
            <dl class="stats">
              <Stat label="Health" value={broker.trouble ? "in trouble" : "healthy"} tone={broker.trouble ? "bad" : "good"} />
              <Stat label="Running for" value={seconds((state.atMs - state.startedMs) / 1000)} />
              <Stat label="Connections" value={whole(broker.connections)} />
              <Stat label="Processor" value={`${(cpu * 100).toFixed(1)} %`} detail="of one core" />
              <Stat label="Memory" value={bytes(broker.residentBytes)} />
              <Stat label="Event loop late" value={seconds(late)} detail={`longest ever ${seconds(broker.loopHeldLongestSeconds)}`} tone={late > 0.05 ? "warn" : undefined} />
              <Stat label="Syncs per second" value={short(syncs)} detail={`${bytes(broker.queuedBytes + broker.unsyncedBytes)} wait for the disk`} />
              <Stat
                label="v4 clients refused"
                value={whole(Object.values(broker.legacyRefusals).reduce((sum, each) => sum + each, 0))}
                detail="for topics that became scalable"
              />
            </dl>
          </Card>
        )}
      </div>
    </>
  );
}
