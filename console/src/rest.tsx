import { useMemo, useState } from "preact/hooks";
import { exchange, type Exchange } from "./api";
import { count } from "./format";
import { Badge, Card, Field, Json, Note, useGet } from "./ui";

interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
  schema?: { type?: string; default?: unknown; enum?: string[] };
}

interface Described {
  operationId?: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content?: Record<string, unknown> };
}

interface Operation extends Described {
  method: string;
  path: string;
}

const METHODS = ["get", "put", "post", "delete"] as const;
const SHOWN_MAX = 60;
const REFUSED = /: not supported\.$/;

/** Every call of the admin interface, from its own description, to be tried here. */
export function Rest() {
  const { value, problem } = useGet<{ paths: Record<string, Record<string, Described>> }>("/openapi.json");
  const [text, setText] = useState("");
  const [showsAll, setShowsAll] = useState(false);
  const [chosen, setChosen] = useState<Operation>();
  const operations = useMemo(
    () =>
      Object.entries(value?.paths ?? {}).flatMap(([path, methods]) =>
        METHODS.filter((method) => method in methods).map((method): Operation => ({ ...methods[method], method: method.toUpperCase(), path })),
      ).sort((a, b) => a.path.localeCompare(b.path)),
    [value],
  );
  const isServed = (each: Operation): boolean => !REFUSED.test(each.summary ?? "");
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = operations.filter((each) => {
    const all = `${each.method} ${each.path} ${each.summary ?? ""} ${each.operationId ?? ""}`.toLowerCase();
    return words.every((word) => all.includes(word)) && (showsAll || isServed(each));
  });
  return (
    <>
      <div class="head">
        <h1>REST</h1>
        <span class="soft">{count(operations.filter(isServed).length, "call")}</span>
      </div>
      {problem && <Note tone="bad">{problem}</Note>}
      <div class="grid">
        <Card title="Calls">
          <Field label="Find" hint="Words of the path, the method or what it does.">
            {(id) => <input id={id} type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />}
          </Field>
          <label class="check">
            <input type="checkbox" checked={showsAll} onChange={(event) => setShowsAll(event.currentTarget.checked)} /> also what this broker refuses
          </label>
          <ul class="plain calls">
            {found.slice(0, SHOWN_MAX).map((each) => (
              <li key={`${each.method} ${each.path}`}>
                <button type="button" aria-pressed={chosen === each} onClick={() => setChosen(each)}>
                  <Badge tone={each.method === "GET" ? "good" : each.method === "DELETE" ? "bad" : "warn"}>{each.method}</Badge>
                  <span>
                    <code>{each.path}</code>
                    <small>{each.summary}</small>
                  </span>
                </button>
              </li>
            ))}
          </ul>
          {found.length > SHOWN_MAX && <p class="soft">{found.length - SHOWN_MAX} more; give more words.</p>}
        </Card>
        {chosen && <Try key={`${chosen.method} ${chosen.path}`} operation={chosen} />}
      </div>
    </>
  );
}

function Try(props: { operation: Operation }) {
  const { operation } = props;
  const parameters = (operation.parameters ?? []).filter((each) => each.in !== "header");
  const [given, setGiven] = useState<Record<string, string>>({});
  const [body, setBody] = useState("");
  const [answer, setAnswer] = useState<Exchange>();
  const target = build(operation.path, parameters, given);
  const takesBody = operation.requestBody !== undefined;
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    setAnswer(await exchange(operation.method, target, takesBody && body !== "" ? body : undefined));
  }
  return (
    <Card title={`${operation.method} ${operation.path}`}>
      <p>
        {operation.summary} {operation.description}
      </p>
      <form onSubmit={(event) => void submit(event)}>
        {parameters.map((each) => (
          <Field key={`${each.in} ${each.name}`} label={each.name} hint={each.in === "path" ? "part of the path" : `${each.schema?.type ?? "text"}, may be left out`}>
            {(id) => <input id={id} required={each.in === "path"} value={given[each.name] ?? ""} onInput={(event) => setGiven({ ...given, [each.name]: event.currentTarget.value })} />}
          </Field>
        ))}
        {takesBody && (
          <Field label="Body" hint="JSON">
            {(id) => <textarea id={id} rows={5} value={body} onInput={(event) => setBody(event.currentTarget.value)} />}
          </Field>
        )}
        {operation.method !== "GET" && <Note tone="warn">This call changes something on the broker, at once.</Note>}
        <button type="submit" class="primary">
          Call
        </button>
      </form>
      <h3>The same in a shell</h3>
      <Json value={curl(operation.method, target, takesBody ? body : "")} />
      {answer && (
        <>
          <h3>Answer</h3>
          <p role="status">
            <Badge tone={answer.status >= 200 && answer.status < 300 ? "good" : "bad"}>{answer.status || "no answer"}</Badge>
          </p>
          <Json value={answer.text} />
        </>
      )}
    </Card>
  );
}

function build(path: string, parameters: Parameter[], given: Record<string, string>): string {
  let target = path;
  const query = new URLSearchParams();
  for (const each of parameters) {
    const value = given[each.name] ?? "";
    if (each.in === "path") target = target.replace(`{${each.name}}`, value === "" ? `{${each.name}}` : encodeURIComponent(value));
    else if (value !== "") query.set(each.name, value);
  }
  const text = query.toString();
  return text ? `${target}?${text}` : target;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function curl(method: string, target: string, body: string): string {
  const data = body ? ` -H 'content-type: application/json' -d ${quote(body)}` : "";
  return `curl -X ${method}${data} ${quote(`${location.origin}${target}`)}`;
}
