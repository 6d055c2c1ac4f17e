import { useEffect, useState } from "preact/hooks";
import { consolePath, get, post, put, remove, restPath, type Topic } from "./api";
import { ago, count, lag, short, whole } from "./format";
import { Badge, Card, Dialog, Field, Note, Table } from "./ui";

export interface Consumer {
  consumerName: string;
  address: string;
  clientVersion: string;
}

export interface Shown {
  name: string;
  type: string;
  lag: number;
  isExact: boolean;
  /** Of scalable topics the rest is known by segment alone. */
  rateOut?: number;
  unacked?: number;
  lastAckedMs?: number;
  everywhere?: number;
  consumers: { name: string; text: string }[];
}

type Asked = { kind: "reset" | "skip" | "expire" | "clear" | "delete"; name: string } | { kind: "create" };

interface Effect {
  again: number;
  passed: number;
  backlog: number;
  isExact: boolean;
}

export function Subscriptions(props: { topic: Topic; rows: Shown[]; rights: Set<string>; atMs: number; isSplit: boolean }) {
  const isScalable = props.topic.domain === "topic";
  const may = (verb: string): boolean => props.rights.has(isScalable ? `scalable_topics.${verb}` : `subscriptions.${verb}`);
  const [asked, setAsked] = useState<Asked>();
  return (
    <Card
      title="Subscriptions"
      actions={
        may(isScalable ? "create_subscription" : "create") && (
          <button type="button" onClick={() => setAsked({ kind: "create" })}>
            New subscription
          </button>
        )
      }
    >
      <Table
        label="Subscriptions"
        rows={props.rows}
        keyOf={(each) => each.name}
        empty="No subscription: nothing holds messages back from removal."
        columns={[
          { name: "Name", show: (each) => <strong>{each.name}</strong> },
          { name: "Type", show: (each) => <Badge>{each.type.toLowerCase()}</Badge> },
          { name: "Lag, messages", isNumber: true, show: (each) => lag(each.lag, each.isExact) },
          ...(isScalable
            ? []
            : [
                { name: "Out /s", isNumber: true, show: (each: Shown) => short(each.rateOut ?? 0) },
                { name: "Unacked", isNumber: true, show: (each: Shown) => whole(each.unacked ?? 0) },
                { name: "Last ack", show: (each: Shown) => ago(each.lastAckedMs, props.atMs) },
              ]),
          {
            name: "Consumers",
            show: (each) => (
              <ul class="plain">
                {each.consumers.slice(0, 12).map((consumer) => (
                  <li key={consumer.name}>
                    {consumer.name} <small>{consumer.text}</small>
                  </li>
                ))}
                {each.consumers.length > 12 && <li>… {each.consumers.length - 12} more</li>}
                {(each.everywhere ?? 0) > 0 && <li>{count(each.everywhere ?? 0, "consumer")} <small>of every segment</small></li>}
                {each.consumers.length === 0 && !each.everywhere && <li class="soft">none</li>}
              </ul>
            ),
          },
          {
            name: "Actions",
            show: (each) => (
              <div class="actions">
                {may(isScalable ? "seek" : "reset_to_time") && (
                  <button type="button" class="small" onClick={() => setAsked({ kind: "reset", name: each.name })}>
                    Reset<span class="hidden"> {each.name}</span>
                  </button>
                )}
                {!isScalable && !props.isSplit && may("skip") && (
                  <button type="button" class="small" onClick={() => setAsked({ kind: "skip", name: each.name })}>
                    Skip
                  </button>
                )}
                {may("expire") && (
                  <button type="button" class="small" onClick={() => setAsked({ kind: "expire", name: each.name })}>
                    Expire
                  </button>
                )}
                {may(isScalable ? "clear_backlog" : "skip_all") && (
                  <button type="button" class="small" onClick={() => setAsked({ kind: "clear", name: each.name })}>
                    Clear
                  </button>
                )}
                {may(isScalable ? "delete_subscription" : "delete") && (
                  <button type="button" class="small" onClick={() => setAsked({ kind: "delete", name: each.name })}>
                    Delete
                  </button>
                )}
              </div>
            ),
          },
        ]}
      />
      {asked && <Ask topic={props.topic} asked={asked} onClose={() => setAsked(undefined)} />}
    </Card>
  );
}

function EffectOf(props: { topic: Topic; query: string }) {
  const [found, setFound] = useState<Effect>();
  const [problem, setProblem] = useState("");
  useEffect(() => {
    setProblem("");
    get<Effect>(`${consolePath(props.topic)}/preview/cursor?${props.query}`)
      .then(setFound)
      .catch((error: Error) => setProblem(error.message));
  }, [props.query]);
  if (problem) return <Note tone="bad">{problem}</Note>;
  if (!found) return <p class="empty">Counting…</p>;
  const about = found.isExact ? "" : "about ";
  return (
    <Note tone={found.passed > 0 ? "warn" : undefined}>
      What will happen: {found.again > 0 && <strong>{about}{whole(found.again)} messages come again. </strong>}
      {found.passed > 0 && <strong>{about}{whole(found.passed)} messages are passed over and not delivered. </strong>}
      {found.again === 0 && found.passed === 0 && "the cursor stays where it is. "}
      The lag now is {about}{whole(found.backlog)} messages.
    </Note>
  );
}

function Ask(props: { topic: Topic; asked: Asked; onClose: () => void }) {
  const { topic, asked } = props;
  const isScalable = topic.domain === "topic";
  const root = restPath(topic);
  const [name, setName] = useState("");
  const [type, setType] = useState("STREAM");
  const [time, setTime] = useState("0");
  const [count, setCount] = useState(1);
  const [age, setAge] = useState(3600);
  const base = asked.kind === "create" ? "" : `${root}/${isScalable ? "subscriptions" : "subscription"}/${encodeURIComponent(asked.name)}`;
  switch (asked.kind) {
    case "create":
      return (
        <Dialog
          title="New subscription"
          confirm="Create"
          isReady={name !== ""}
          onClose={props.onClose}
          onConfirm={() => (isScalable ? put(`${root}/subscriptions/${encodeURIComponent(name)}?type=${type}`) : put(`${root}/subscription/${encodeURIComponent(name)}`, "earliest"))}
        >
          <Field label="Name">{(id) => <input id={id} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
          {isScalable && (
            <Field label="Kind" hint="A stream keeps the order of each key; a queue hands messages to any consumer.">
              {(id) => (
                <select id={id} value={type} onChange={(event) => setType(event.currentTarget.value)}>
                  <option>STREAM</option>
                  <option>QUEUE</option>
                </select>
              )}
            </Field>
          )}
        </Dialog>
      );
    case "reset": {
      const isNumber = /^\d+$/.test(time);
      const ms = isNumber ? Number(time) : new Date(time).getTime();
      return (
        <Dialog
          title={`Reset ${asked.name}`}
          confirm="Reset"
          isReady={!Number.isNaN(ms)}
          onClose={props.onClose}
          onConfirm={async () => void (await post(isScalable ? `${base}/seek?timestamp=${ms}` : `${base}/resetcursor/${ms}`))}
        >
          <Field label="To">
            {(id) => (
              <select id={id} value={isNumber ? time : "time"} onChange={(event) => setTime(event.currentTarget.value === "time" ? new Date(Date.now() - 3_600_000).toISOString().slice(0, 19) : event.currentTarget.value)}>
                <option value="0">the first message that is stored</option>
                <option value="4102444800000">the end</option>
                <option value="time">a time</option>
              </select>
            )}
          </Field>
          {!isNumber && <Field label="Time">{(id) => <input id={id} type="datetime-local" step="1" value={time} onInput={(event) => setTime(event.currentTarget.value)} />}</Field>}
          {!Number.isNaN(ms) && <EffectOf topic={topic} query={`subscription=${encodeURIComponent(asked.name)}&time=${ms}`} />}
        </Dialog>
      );
    }
    case "skip":
      return (
        <Dialog title={`Skip messages of ${asked.name}`} confirm="Skip" isReady={count > 0} isDangerous onClose={props.onClose} onConfirm={async () => void (await post(`${base}/skip/${count}`))}>
          <Field label="Entries">{(id) => <input id={id} type="number" min={1} value={count} onInput={(event) => setCount(event.currentTarget.valueAsNumber || 0)} />}</Field>
          <EffectOf topic={topic} query={`subscription=${encodeURIComponent(asked.name)}&skip=${count}`} />
        </Dialog>
      );
    case "expire":
      return (
        <Dialog title={`Expire messages of ${asked.name}`} confirm="Expire" isDangerous onClose={props.onClose} onConfirm={async () => void (await post(`${base}/expireMessages/${age}`))}>
          <Field label="Older than, seconds">{(id) => <input id={id} type="number" min={0} value={age} onInput={(event) => setAge(event.currentTarget.valueAsNumber || 0)} />}</Field>
          <EffectOf topic={topic} query={`subscription=${encodeURIComponent(asked.name)}&time=${Math.round(Date.now() / 1000 - age) * 1000}`} />
          <p class="soft">Only what is older is passed over; nothing comes again.</p>
        </Dialog>
      );
    case "clear":
      return (
        <Dialog title={`Clear the backlog of ${asked.name}`} confirm="Clear" isDangerous onClose={props.onClose} onConfirm={async () => void (await post(isScalable ? `${base}/skip-all` : `${base}/skip_all`))}>
          <EffectOf topic={topic} query={`subscription=${encodeURIComponent(asked.name)}`} />
        </Dialog>
      );
    case "delete":
      return (
        <Dialog title={`Delete ${asked.name}`} confirm="Delete" isDangerous onClose={props.onClose} onConfirm={() => remove(base)}>
          <Note tone="warn">What will happen: its place is forgotten, and what only it had not read may be removed. It is refused while consumers are connected.</Note>
        </Dialog>
      );
  }
}
