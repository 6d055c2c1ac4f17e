import { useState } from "preact/hooks";
import { consolePath, fullName, policyPath, post, schemaPath, topicLink, type Topic } from "./api";
import { bytes, lag, moment, short, whole } from "./format";
import { Messages } from "./messages";
import { Drain, Migration } from "./migration";
import { Policies } from "./policies";
import { isLagExact, totalLag, type ScalableState } from "./scalable";
import { Scaling } from "./scaling";
import { Subscriptions, type Consumer, type Shown } from "./subscriptions";
import { Badge, Card, Field, Json, LiveMark, Note, Stat, Table, Tabs, useGet, useRights, useWatch } from "./ui";

interface SubscriptionStats {
  type: string;
  lagMessages?: number;
  isLagEstimated?: boolean;
  msgRateOut: number;
  unackedMessages: number;
  lastAckedTimestamp: number;
  consumers: Consumer[];
}

interface Publisher {
  producerName: string;
  address: string;
  clientVersion: string;
  msgRateIn: number;
}

interface Part {
  msgRateIn: number;
  msgRateOut: number;
  msgThroughputIn: number;
  msgThroughputOut: number;
  storageSize: number;
  publishers: Publisher[];
  subscriptions: Record<string, SubscriptionStats>;
}

interface RegularState {
  kind: "regular" | "partitioned";
  atMs: number;
  partitions: number;
  parts: Record<string, Part>;
}

/** `ownerUrl`: another broker serves the topic, and changes are made there. */
type State = (RegularState | ScalableState) & { ownerUrl?: string };

/** What any broker answers for the owner. */
const READING = ["topics.examine", "topic_policies.get_retention"];

export function TopicPage(props: { topic: Topic; tab: string }) {
  const { topic } = props;
  const name = fullName(topic);
  const { state, problem, connection } = useWatch<State>(consolePath(topic));
  const allowed = useRights(`topic=${encodeURIComponent(name)}`);
  const rights = state?.ownerUrl === undefined ? allowed : new Set(READING.filter((each) => allowed.has(each)));
  const isScalable = topic.domain === "topic";
  const tabs: [string, string][] = [
    [isScalable ? "picture" : "state", isScalable ? "Living picture" : "State"],
    ["subscriptions", "Subscriptions"],
  ];
  if (rights.has("topics.examine")) tabs.push(["messages", "Messages"]);
  tabs.push(["schema", "Schema"]);
  if (rights.has("topic_policies.get_retention")) tabs.push(["policies", "Policies"]);
  const wasRegular = state?.kind === "scalable" && state.metadata.migratedFrom !== undefined;
  if ((!isScalable && rights.has("scalable_topics.migration_check")) || wasRegular) tabs.push(["migration", "Migration"]);
  const tab = props.tab || tabs[0][0];
  return (
    <>
      <div class="head">
        <h1>{name}</h1>
        <Badge tone={isScalable ? "accent" : ""}>{state?.kind ?? "…"}</Badge>
        <LiveMark connection={connection} />
      </div>
      <Tabs tabs={tabs} active={tab} link={(each) => topicLink(name, each)} />
      {problem && <Note tone="bad">{problem}</Note>}
      {state?.ownerUrl !== undefined && (
        <Note tone="warn">
          Another broker serves this topic: <a href={`${state.ownerUrl}/console/${topicLink(name)}`}>change it in that broker's console</a>.
        </Note>
      )}
      {tab === "picture" && state?.kind === "scalable" && <Scaling topic={topic} state={state} rights={rights} />}
      {tab === "state" && state && state.kind !== "scalable" && <Regular state={state} />}
      {tab === "subscriptions" && state && (
        <Subscriptions topic={topic} rows={subscriptionsOf(state)} rights={rights} atMs={state.atMs} isSplit={state.kind === "partitioned"} />
      )}
      {tab === "messages" && <Messages topic={topic} rights={rights} />}
      {tab === "schema" && <Schemas topic={topic} rights={rights} />}
      {tab === "policies" && <Policies of="topic" from={`${consolePath(topic)}/policies`} base={policyPath(topic)} mayEdit={rights.has("topic_policies.set_retention")} />}
      {tab === "migration" && !isScalable && <Migration topic={topic} rights={rights} />}
      {tab === "migration" && state?.kind === "scalable" && <Drain state={state} />}
    </>
  );
}

function subscriptionsOf(state: RegularState | ScalableState): Shown[] {
  if (state.kind === "scalable")
    return Object.entries(state.stats.subscriptions).map(([name, each]) => ({
      name,
      type: each.type ?? "checkpoint",
      lag: totalLag(state, name),
      isExact: isLagExact(state, name),
      consumers: Object.entries(each.consumers ?? {}).map(([consumer, told]) => ({
        name: consumer,
        text: `reads ${told.segments.join(", ") || "nothing"}${told.connected ? "" : ", away"}`,
      })),
      // Consumers of a queue are not assigned segments: each reads all of them.
      everywhere: each.consumers ? 0 : each.consumerCount,
    }));
  const found = new Map<string, Shown>();
  for (const part of Object.values(state.parts))
    for (const [name, each] of Object.entries(part.subscriptions)) {
      const known = found.get(name) ?? { name, type: each.type, lag: 0, isExact: true, rateOut: 0, unacked: 0, lastAckedMs: 0, consumers: [] };
      found.set(name, {
        ...known,
        lag: known.lag + (each.lagMessages ?? 0),
        isExact: known.isExact && !each.isLagEstimated,
        rateOut: (known.rateOut ?? 0) + each.msgRateOut,
        unacked: (known.unacked ?? 0) + each.unackedMessages,
        lastAckedMs: Math.max(known.lastAckedMs ?? 0, each.lastAckedTimestamp),
        consumers: [
          ...known.consumers,
          ...each.consumers
            .filter((consumer) => !known.consumers.some((other) => other.name === consumer.consumerName))
            .map((consumer) => ({ name: consumer.consumerName, text: `${consumer.clientVersion}, ${consumer.address}` })),
        ],
      });
    }
  return [...found.values()];
}

function Regular(props: { state: RegularState }) {
  const parts = Object.entries(props.state.parts);
  const sum = (read: (part: Part) => number): number => parts.reduce((total, [, part]) => total + read(part), 0);
  const publishers = new Map(parts.flatMap(([, part]) => part.publishers.map((each) => [`${each.producerName}${each.address}`, each] as const)));
  const late = subscriptionsOf(props.state);
  return (
    <div class="grid">
      <Card title="Now" wide>
        <dl class="stats">
          <Stat label="In /s" value={short(sum((part) => part.msgRateIn))} detail={`${bytes(sum((part) => part.msgThroughputIn))}/s`} />
          <Stat label="Out /s" value={short(sum((part) => part.msgRateOut))} detail={`${bytes(sum((part) => part.msgThroughputOut))}/s`} />
          <Stat label="Stored" value={bytes(sum((part) => part.storageSize))} />
          <Stat label="Lag, in messages" value={lag(Math.max(0, ...late.map((each) => each.lag)), late.every((each) => each.isExact))} detail="of the slowest subscription" />
          {props.state.kind === "partitioned" && <Stat label="Partitions" value={whole(props.state.partitions)} />}
        </dl>
      </Card>
      {props.state.kind === "partitioned" && (
        <Card title="Partitions">
          <Table
            label="Partitions"
            rows={parts}
            keyOf={([name]) => name}
            columns={[
              { name: "Partition", show: ([name]) => name.split("/").at(-1) },
              { name: "In /s", isNumber: true, show: ([, part]) => short(part.msgRateIn) },
              { name: "Out /s", isNumber: true, show: ([, part]) => short(part.msgRateOut) },
              { name: "Stored", isNumber: true, show: ([, part]) => bytes(part.storageSize) },
            ]}
          />
        </Card>
      )}
      <Card title="Producers">
        <Table
          label="Producers"
          rows={[...publishers.values()]}
          keyOf={(each) => `${each.producerName}${each.address}`}
          empty="No producer is connected."
          columns={[
            { name: "Name", show: (each) => each.producerName },
            { name: "Client", show: (each) => each.clientVersion },
            { name: "Address", show: (each) => each.address },
            { name: "In /s", isNumber: true, show: (each) => short(each.msgRateIn) },
          ]}
        />
      </Card>
    </div>
  );
}

interface Schema {
  version: number;
  type: string;
  timestamp: number;
  data: string;
  properties: Record<string, string>;
}

function Schemas(props: { topic: Topic; rights: Set<string> }) {
  const path = schemaPath(props.topic);
  const { value, problem } = useGet<{ getSchemaResponses: Schema[] }>(`${path}/schemas`);
  const [checked, setChecked] = useState("");
  const [type, setType] = useState("AVRO");
  const [text, setText] = useState("");
  const versions = [...(value?.getSchemaResponses ?? [])].reverse();
  async function check(): Promise<void> {
    try {
      const answer = await post<{ compatibility?: boolean; isCompatibility?: boolean; schemaCompatibilityStrategy: string }>(`${path}/compatibility`, { type, schema: text, properties: {} });
      const isGood = answer?.compatibility ?? answer?.isCompatibility;
      setChecked(`${isGood ? "Compatible" : "Not compatible"} by ${answer?.schemaCompatibilityStrategy}.`);
    } catch (error) {
      setChecked(error instanceof Error ? error.message : String(error));
    }
  }
  return (
    <div class="grid">
      <Card title="Versions" wide>
        {problem && <Note>{problem}</Note>}
        {!problem && versions.length === 0 && <p class="empty">The topic has no schema: its messages are bytes.</p>}
        {versions.map((each) => (
          <details key={each.version} open={each === versions[0]}>
            <summary>
              Version {each.version} <Badge>{each.type}</Badge> <span class="soft">{each.timestamp ? moment(each.timestamp) : ""}</span>
            </summary>
            <Json value={pretty(each.data)} />
          </details>
        ))}
      </Card>
      {props.rights.has("schemas.check") && (
        <Card title="Would another schema fit?" wide>
          <Field label="Type">
            {(id) => (
              <select id={id} value={type} onChange={(event) => setType(event.currentTarget.value)}>
                <option>AVRO</option>
                <option>JSON</option>
                <option>STRING</option>
              </select>
            )}
          </Field>
          <Field label="Definition">{(id) => <textarea id={id} value={text} onInput={(event) => setText(event.currentTarget.value)} />}</Field>
          <button type="button" onClick={() => void check()}>
            Check, without adding it
          </button>
          {checked && <Note>{checked}</Note>}
        </Card>
      )}
    </div>
  );
}

function pretty(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text || "no definition";
  }
}
