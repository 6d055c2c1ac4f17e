import { useState } from "preact/hooks";
import { fullName, post, scalablePath, topicLink, type Topic } from "./api";
import { seconds, whole } from "./format";
import { lagOf, segmentsOf, type ScalableState } from "./scalable";
import { Badge, Card, Field, Note, Table, useGet } from "./ui";

interface Client {
  type: string;
  name: string;
  topic: string;
  address: string;
  clientVersion: string;
  subscription?: string;
}

interface Rehearsal {
  scalableTopic: string;
  partitions: number;
  ready: boolean;
  checks: Record<string, string>;
  newSegments: number;
  notes: string[];
  v4Clients: Client[];
  segments: Record<string, string>;
  subscriptions: Record<string, { msgBacklog: number; msgRateOut: number; drainSeconds?: number }>;
}

/** The way of a regular topic to a scalable one: look, decide, flip. What follows is shown by the scalable topic. */
export function Migration(props: { topic: Topic; rights: Set<string> }) {
  const [segments, setSegments] = useState(0);
  const [isForced, setForced] = useState(false);
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const path = scalablePath(props.topic);
  const query = segments > 0 ? `?segments=${segments}` : "";
  const { value, problem: refused, reload } = useGet<Rehearsal>(`${path}/migration-check${query}`);

  async function flip(): Promise<void> {
    setBusy(true);
    setProblem("");
    const asked = new URLSearchParams();
    if (isForced) asked.set("force", "true");
    if (segments > 0) asked.set("segments", String(segments));
    try {
      await post(`${path}/migrate?${asked.toString()}`);
      location.hash = topicLink(`topic://${props.topic.tenant}/${props.topic.namespace}/${props.topic.local}`, "migration");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setBusy(false);
      reload();
    }
  }

  if (refused) return <Note tone="bad">{refused}</Note>;
  if (!value) return <p class="empty">Rehearsing…</p>;
  const isReady = value.ready || (isForced && value.v4Clients.length > 0);
  const made = Object.entries(value.segments).filter(([, state]) => state === "ACTIVE");
  const kept = Object.entries(value.segments).filter(([, state]) => state !== "ACTIVE");
  return (
    <Card title={`${fullName(props.topic)} becomes scalable`}>
      <div class="steps">
        <div class={`step ${value.ready ? "done" : ""}`}>
          <h3>Rehearsal</h3>
          <ul class="checks" aria-label="Checks">
            {Object.entries(value.checks).map(([requirement, refusal]) => (
              <li key={requirement}>
                <Badge tone={refusal ? "bad" : "good"}>{refusal ? "failed" : "passed"}</Badge> {requirement}
                {refusal && <Note tone="bad">{refusal}</Note>}
              </li>
            ))}
          </ul>
          {value.notes.map((each) => (
            <Note key={each} tone="warn">
              {each}
            </Note>
          ))}
          {value.ready && <Note tone="good">Every check passes. The rehearsal changed nothing.</Note>}
          <button type="button" onClick={reload}>
            Check again
          </button>
        </div>
        <div class={`step ${value.v4Clients.length === 0 ? "done" : ""}`}>
          <h3>Attached v4 clients</h3>
          <Table
            label="v4 clients"
            rows={value.v4Clients}
            keyOf={(client) => `${client.type}${client.name}${client.topic}${client.address}`}
            empty="None. All attached clients follow the topic."
            columns={[
              { name: "Kind", show: (client) => client.type },
              { name: "Name", show: (client) => (client.subscription ? `${client.name} of ${client.subscription}` : client.name) },
              { name: "Client", show: (client) => <Badge tone="warn">{client.clientVersion}</Badge> },
              { name: "Address", show: (client) => client.address },
              { name: "On", show: (client) => client.topic.split("/").at(-1) },
            ]}
          />
        </div>
        <div class="step done">
          <h3>The new layout</h3>
          <p>
            {value.scalableTopic}: {whole(kept.length)} {kept.length === 1 ? "log" : "logs"} sealed and kept where {kept.length === 1 ? "it is" : "they are"}, {whole(made.length)} new {made.length === 1 ? "segment" : "segments"} for new messages. Nothing is copied.
          </p>
          <Field label="New segments" hint={`0: as many as the broker proposes (${value.newSegments})`}>
            {(id) => <input id={id} type="number" min={0} max={256} value={segments} onInput={(event) => setSegments(event.currentTarget.valueAsNumber || 0)} />}
          </Field>
          <Table
            label="What subscriptions have left to read first"
            rows={Object.entries(value.subscriptions)}
            keyOf={([name]) => name}
            empty="No subscription."
            columns={[
              { name: "Subscription", show: ([name]) => name },
              { name: "To drain, entries", isNumber: true, show: ([, each]) => whole(each.msgBacklog) },
              { name: "At the present rate", show: ([, each]) => (each.drainSeconds === undefined ? "not being read" : seconds(each.drainSeconds)) },
            ]}
          />
        </div>
        <div class="step">
          <h3>The flip</h3>
          <p>One write makes the topic scalable. There is no way back: the regular name then refuses v4 clients.</p>
          {value.v4Clients.length > 0 && (
            <label class="check">
              <input type="checkbox" checked={isForced} onChange={(event) => setForced(event.currentTarget.checked)} /> Disconnect the v4 clients (force)
            </label>
          )}
          <Field label={`Type ${props.topic.local} to go on`}>{(id) => <input id={id} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />}</Field>
          {problem && <Note tone="bad">{problem}</Note>}
          <button type="button" class="danger" disabled={!isReady || typed !== props.topic.local || isBusy || !props.rights.has("scalable_topics.migrate_to_scalable")} onClick={() => void flip()}>
            {isBusy ? "Migrating…" : "Make it scalable"}
          </button>
        </div>
      </div>
    </Card>
  );
}

/** After the flip: how far each subscription has read what the regular topic held. */
export function Drain(props: { state: ScalableState }) {
  const { state } = props;
  const legacy = segmentsOf(state).filter((segment) => segment.legacy);
  const names = Object.keys(state.stats.subscriptions).sort();
  const sizes = legacy.map((segment) => state.stats.segments[segment.segmentId]?.msgInCounter ?? 0);
  const from = state.metadata.migratedFrom;
  return (
    <Card title="Migration">
      <div class="steps">
        <div class="step done">
          <h3>The flip is done</h3>
          <p>
            It was {from?.topicName}, {from?.partitions ? `with ${from.partitions} partitions` : "without partitions"}.
          </p>
        </div>
        <div class={`step ${legacy.every((segment) => lagOf(state, segment.segmentId) === 0) ? "done" : ""}`}>
          <h3>The old logs drain</h3>
          {legacy.length === 0 && <Note tone="good">All is read, and the old logs are removed.</Note>}
          {legacy.map((segment, index) => (
            <div key={segment.segmentId}>
              <p>
                <code>{segment.legacyTopicName}</code>
              </p>
              {names.map((name) => {
                const left = lagOf(state, segment.segmentId, name);
                const all = Math.max(sizes[index], left, 1);
                return (
                  <div key={name}>
                    <small>
                      {name}: {left === 0 ? "drained" : `${whole(left)} messages left`}
                    </small>
                    <div class={left === 0 ? "meter done" : "meter"} role="meter" aria-label={`${name} of ${segment.legacyTopicName}`} aria-valuemin={0} aria-valuemax={all} aria-valuenow={all - left}>
                      <div style={{ width: `${((all - left) / all) * 100}%` }} />
                    </div>
                  </div>
                );
              })}
              {names.length === 0 && <p class="empty">No subscription reads it.</p>}
            </div>
          ))}
        </div>
      </div>
    </Card>
  );
}
