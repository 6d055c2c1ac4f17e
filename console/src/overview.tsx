import { useRef } from "preact/hooks";
import { topicLink } from "./api";
import type { Session } from "./app";
import { bytes, lag, seconds, short, span, whole } from "./format";
import { Badge, Card, LiveMark, Note, Stat, Table, Trend, useTrend, useWatch } from "./ui";

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
  atMs: number;
  startedMs: number;
  trouble: string;
  connections: number;
  cpuSeconds: number;
  residentBytes: number;
  loopLooks: number;
  loopHeldSeconds: number;
  loopHeldLongestSeconds: number;
  queuedBytes: number;
  unsyncedBytes: number;
  journal_groups?: number;
  journal_write_seconds?: number;
  legacyRefusals: Record<string, number>;
}

interface State {
  brokerId: string;
  topics: Sums;
  busiest: Busy[];
  brokers?: Record<string, Process>;
  silentBrokers?: string[];
}

/** What a process did between its last two states. */
interface Pace {
  cpu: number;
  loopLateS: number;
  commits: number;
  commitS: number;
}

const AT_REST: Pace = { cpu: 0, loopLateS: 0, commits: 0, commitS: 0 };

function paceOf(before: Process, now: Process): Pace {
  const span = (now.atMs - before.atMs) / 1000;
  const looks = now.loopLooks - before.loopLooks;
  const commits = (now.journal_groups ?? 0) - (before.journal_groups ?? 0);
  return {
    cpu: (now.cpuSeconds - before.cpuSeconds) / span,
    loopLateS: looks > 0 ? (now.loopHeldSeconds - before.loopHeldSeconds) / looks : 0,
    commits: commits / span,
    commitS: commits > 0 ? ((now.journal_write_seconds ?? 0) - (before.journal_write_seconds ?? 0)) / commits : 0,
  };
}

function usePaces(brokers: Record<string, Process>): Record<string, Pace> {
  const kept = useRef<{ last: Record<string, Process>; paces: Record<string, Pace> }>({ last: {}, paces: {} });
  const { last, paces } = kept.current;
  for (const [id, now] of Object.entries(brokers)) {
    if (last[id] && now.atMs > last[id].atMs) paces[id] = paceOf(last[id], now);
    last[id] = now;
  }
  return paces;
}

export function Overview(props: { session: Session }) {
  const { state, problem, connection } = useWatch<State>("/console/api/overview");
  const inward = useTrend(state?.topics.msgRateIn);
  const outward = useTrend(state?.topics.msgRateOut);
  const paces = usePaces(state?.brokers ?? {});
  if (!state) return problem ? <Note tone="bad">{problem}</Note> : <p class="empty">Loading…</p>;
  const { topics } = state;
  const brokers = Object.entries(state.brokers ?? {});
  return (
    <>
      <div class="head">
        <h1>{props.session.cluster}</h1>
        <span class="soft">{state.brokerId}</span>
        <LiveMark connection={connection} />
      </div>
      {brokers.map(([id, each]) => each.trouble && <Note key={id} tone="bad">{brokers.length > 1 ? `${id}: ${each.trouble}` : each.trouble}</Note>)}
      {(state.silentBrokers ?? []).map((id) => (
        <Note key={id} tone="warn">
          {id} does not answer: what it carries is missing below.
        </Note>
      ))}
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
        <Card title="Totals" wide>
          <dl class="stats">
            <Stat label="Topics in use" value={whole(topics.parts)} />
            <Stat label="Subscriptions" value={whole(topics.subscriptions)} />
            <Stat label="Producers" value={whole(topics.producers)} />
            <Stat label="Consumers" value={whole(topics.consumers)} />
            <Stat label="Lag, in messages" value={lag(topics.lag, topics.isLagExact)} detail="slowest subscription of each topic" />
            <Stat label="Stored" value={bytes(topics.storageSize)} />
          </dl>
        </Card>
        <Busiest rows={state.busiest} />
        {brokers.length === 1 && <Single broker={brokers[0][1]} pace={paces[brokers[0][0]] ?? AT_REST} />}
        {brokers.length > 1 && <Several brokers={brokers} paces={paces} />}
      </div>
    </>
  );
}

function refusalsOf(broker: Process): number {
  return Object.values(broker.legacyRefusals).reduce((sum, each) => sum + each, 0);
}

function Single(props: { broker: Process; pace: Pace }) {
  const { broker, pace } = props;
  return (
    <Card title="This broker" wide>
      <dl class="stats">
        <Stat label="Health" value={broker.trouble ? "in trouble" : "healthy"} tone={broker.trouble ? "bad" : "good"} />
        <Stat label="Running for" value={seconds((broker.atMs - broker.startedMs) / 1000)} />
        <Stat label="Connections" value={whole(broker.connections)} />
        <Stat label="Processor" value={`${(pace.cpu * 100).toFixed(1)} %`} detail="of one core" />
        <Stat label="Memory" value={bytes(broker.residentBytes)} />
        <Stat label="Event loop late" value={seconds(pace.loopLateS)} detail={`longest ever ${seconds(broker.loopHeldLongestSeconds)}`} tone={pace.loopLateS > 0.05 ? "warn" : undefined} />
        {broker.journal_groups !== undefined && (
          <Stat label="Write and sync" value={span(pace.commitS)} detail={`${short(pace.commits)} a second, ${bytes(broker.queuedBytes + broker.unsyncedBytes)} wait for the disk`} />
        )}
        <Stat label="v4 clients refused" value={whole(refusalsOf(broker))} detail="for topics that became scalable" />
      </dl>
    </Card>
  );
}

function Several(props: { brokers: [string, Process][]; paces: Record<string, Pace> }) {
  const pace = (id: string): Pace => props.paces[id] ?? AT_REST;
  return (
    <Card title="Brokers" wide>
      <Table
        label="Brokers"
        rows={props.brokers}
        keyOf={([id]) => id}
        columns={[
          { name: "Broker", show: ([id]) => id },
          { name: "Health", show: ([, each]) => <Badge tone={each.trouble ? "bad" : "good"}>{each.trouble ? "in trouble" : "healthy"}</Badge> },
          { name: "Running for", show: ([, each]) => seconds((each.atMs - each.startedMs) / 1000) },
          { name: "Connections", isNumber: true, show: ([, each]) => whole(each.connections) },
          { name: "Processor, of one core", isNumber: true, show: ([id]) => `${(pace(id).cpu * 100).toFixed(1)} %` },
          { name: "Memory", isNumber: true, show: ([, each]) => bytes(each.residentBytes) },
          { name: "Event loop late", isNumber: true, show: ([id]) => seconds(pace(id).loopLateS) },
          { name: "Write and sync", isNumber: true, show: ([id, each]) => (each.journal_groups === undefined ? "—" : span(pace(id).commitS)) },
          { name: "Wait for the disk", isNumber: true, show: ([, each]) => bytes(each.queuedBytes + each.unsyncedBytes) },
          { name: "v4 clients refused", isNumber: true, show: ([, each]) => whole(refusalsOf(each)) },
        ]}
      />
    </Card>
  );
}

interface Busy {
  name: string;
  msgRateIn: number;
  msgRateOut: number;
  lag: number;
  isLagExact: boolean;
}

function Busiest(props: { rows: Busy[] }) {
  return (
    <Card title="Busiest topics" wide>
      <Table
        label="Busiest topics"
        rows={props.rows}
        keyOf={(each) => each.name}
        empty="No topic is in use yet."
        columns={[
          { name: "Topic", show: (each) => <a href={topicLink(each.name)}>{each.name}</a> },
          { name: "In /s", isNumber: true, show: (each) => short(each.msgRateIn) },
          { name: "Out /s", isNumber: true, show: (each) => short(each.msgRateOut) },
          { name: "Lag, messages", isNumber: true, show: (each) => lag(each.lag, each.isLagExact) },
        ]}
      />
    </Card>
  );
}
