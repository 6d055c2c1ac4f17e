import { useState } from "preact/hooks";
import { consolePath, post, type Topic } from "./api";
import { bytes, count, moment } from "./format";
import { Card, Dialog, Field, Json, Note, Pairs, useGet } from "./ui";

interface Message {
  position: string;
  batchIndex?: number;
  batchSize?: number;
  producer?: string;
  sequenceId?: number;
  publishedMs?: number;
  eventMs?: number;
  deliverAtMs?: number;
  compression?: string;
  chunk?: string;
  key?: string;
  properties?: Record<string, string>;
  bytes?: number;
  entryBytes: number;
  schema?: string;
  value?: unknown;
  problem?: string;
}

interface Page {
  part: string;
  messages: Message[];
  next: string;
  isEnd: boolean;
  entries: number;
  first: string;
  last: string;
  parts: string[];
}

export function Messages(props: { topic: Topic; rights: Set<string> }) {
  const [by, setBy] = useState("latest");
  const [text, setText] = useState("");
  const [key, setKey] = useState("");
  const [part, setPart] = useState("");
  const [query, setQuery] = useState("count=50");
  const [isPublishing, setPublishing] = useState(false);
  const { value, problem, reload } = useGet<Page>(`${consolePath(props.topic)}/messages?${query}`);

  function look(from?: string): void {
    const start = from ?? (by === "time" ? String(new Date(text).getTime()) : by === "position" ? text.trim() : by);
    const asked = new URLSearchParams({ count: "50", from: start, key, part });
    if (asked.toString() === query) reload();
    setQuery(asked.toString());
  }

  return (
    <Card
      title="Messages"
      actions={
        props.rights.has("schemas.upload") /* as publishing, it needs the right to produce */ && (
          <button type="button" onClick={() => setPublishing(true)}>
            Publish one
          </button>
        )
      }
    >
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          look();
        }}
      >
        <Field label="From">
          {(id) => (
            <select id={id} value={by} onChange={(event) => setBy(event.currentTarget.value)}>
              <option value="latest">the last ones</option>
              <option value="earliest">the first one</option>
              <option value="time">a time</option>
              <option value="position">a position</option>
            </select>
          )}
        </Field>
        {by === "time" && <Field label="Time">{(id) => <input id={id} type="datetime-local" step="1" required value={text} onInput={(event) => setText(event.currentTarget.value)} />}</Field>}
        {by === "position" && <Field label="Position, ledger:entry">{(id) => <input id={id} pattern="\d+:\d+" required value={text} onInput={(event) => setText(event.currentTarget.value)} />}</Field>}
        <Field label="Of key">{(id) => <input id={id} placeholder="any" value={key} onInput={(event) => setKey(event.currentTarget.value)} />}</Field>
        {(value?.parts.length ?? 0) > 1 && (
          <Field label="In">
            {(id) => (
              <select id={id} value={part} onChange={(event) => setPart(event.currentTarget.value)}>
                <option value="">where the key goes</option>
                {value!.parts.map((each) => (
                  <option key={each} value={each}>
                    {each.split("/").at(-1)}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        <button type="submit" class="primary">
          Look
        </button>
      </form>
      {problem && <Note tone="bad">{problem}</Note>}
      {value && (
        <>
          <p class="soft">
            {value.parts.length > 1 && <><code>{value.part.split("/").at(-1)}</code>: </>}{value.entries > 0 ? `${count(value.entries, "entry", "entries")}, from ${value.first} to ${value.last}` : "no entry"}. Looking does not acknowledge anything.
          </p>
          <div class="messages">
            {value.messages.map((message) => (
              <Shown key={`${message.position}.${message.batchIndex ?? 0}`} message={message} />
            ))}
            {value.messages.length === 0 && <p class="empty">No message here.{value.parts.length > 1 && " Choose another segment or partition to look in."}</p>}
          </div>
          {!value.isEnd && (
            <p>
              <button type="button" onClick={() => look(value.next)}>
                Next ones
              </button>
            </p>
          )}
        </>
      )}
      {isPublishing && <Publish topic={props.topic} onClose={() => setPublishing(false)} onDone={reload} />}
    </Card>
  );
}

function Shown(props: { message: Message }) {
  const { message } = props;
  const shown = typeof message.value === "string" ? message.value : JSON.stringify(message.value ?? null);
  return (
    <details class="message">
      <summary>
        <code>
          {message.position}
          {message.batchIndex !== undefined && `.${message.batchIndex}`}
        </code>
        <span>{moment(message.publishedMs)}</span>
        {message.key !== undefined && <strong>{message.key}</strong>}
        <span class="preview">{message.problem ?? shown}</span>
      </summary>
      <Pairs
        pairs={[
          ["Key", message.key],
          ["Published", message.publishedMs && new Date(message.publishedMs).toISOString()],
          ["Event time", message.eventMs && new Date(message.eventMs).toISOString()],
          ["Delivered from", message.deliverAtMs && new Date(message.deliverAtMs).toISOString()],
          ["Producer", message.producer && `${message.producer}, sequence id ${message.sequenceId}`],
          ["Batch", message.batchSize && `${(message.batchIndex ?? 0) + 1} of ${message.batchSize}`],
          ["Chunk", message.chunk],
          ["Compression", message.compression],
          ["Schema", message.schema ?? "none"],
          ["Size", message.bytes !== undefined && `${bytes(message.bytes)} of an entry of ${bytes(message.entryBytes)}`],
          ...Object.entries(message.properties ?? {}).map(([name, each]): [string, string] => [`Property ${name}`, each]),
        ]}
      />
      {message.problem && <Note tone="warn">{message.problem}</Note>}
      <Json value={message.value} />
    </details>
  );
}

function Publish(props: { topic: Topic; onClose: () => void; onDone: () => void }) {
  const [key, setKey] = useState("");
  const [text, setText] = useState("");
  const [encoding, setEncoding] = useState("text");
  const [properties, setProperties] = useState("");
  return (
    <Dialog
      title="Publish one message"
      confirm="Publish"
      onClose={props.onClose}
      onConfirm={async () => {
        const value: unknown = encoding === "json" ? JSON.parse(text) : text;
        const pairs = properties.split("\n").filter((line) => line.includes("="));
        await post(`${consolePath(props.topic)}/messages`, {
          value,
          encoding,
          key: key === "" ? null : key,
          properties: Object.fromEntries(pairs.map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()])),
        });
        props.onDone();
      }}
    >
      <Field label="Key" hint="It decides the segment or the partition; empty: none.">
        {(id) => <input id={id} value={key} onInput={(event) => setKey(event.currentTarget.value)} />}
      </Field>
      <Field label="Value is">
        {(id) => (
          <select id={id} value={encoding} onChange={(event) => setEncoding(event.currentTarget.value)}>
            <option value="text">text</option>
            <option value="json">JSON, written with the topic's schema</option>
            <option value="base64">bytes, as base64</option>
          </select>
        )}
      </Field>
      <Field label="Value">{(id) => <textarea id={id} value={text} onInput={(event) => setText(event.currentTarget.value)} />}</Field>
      <Field label="Properties" hint="name=value, one on each line">
        {(id) => <textarea id={id} value={properties} onInput={(event) => setProperties(event.currentTarget.value)} />}
      </Field>
      <Note>What will happen: one message is stored at the end, and every subscription gets it.</Note>
    </Dialog>
  );
}
