import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Refused, get, watch, type Connection } from "./api";

export function Card(props: { title?: string; actions?: ComponentChildren; children: ComponentChildren; wide?: boolean }) {
  return (
    <section class={props.wide ? "card wide" : "card"} aria-label={props.title}>
      {props.title && (
        <header>
          <h2>{props.title}</h2>
          <div class="actions">{props.actions}</div>
        </header>
      )}
      {props.children}
    </section>
  );
}

export function Stat(props: { label: string; value: string; detail?: string; tone?: "good" | "bad" | "warn" }) {
  return (
    <div class={`stat ${props.tone ?? ""}`}>
      <dt>{props.label}</dt>
      <dd>
        {props.value}
        {props.detail && <small>{props.detail}</small>}
      </dd>
    </div>
  );
}

export function Badge(props: { children: ComponentChildren; tone?: string }) {
  return <span class={`badge ${props.tone ?? ""}`}>{props.children}</span>;
}

export function Note(props: { tone?: "bad" | "warn" | "good"; children: ComponentChildren }) {
  return (
    <p class={`note ${props.tone ?? ""}`} role={props.tone === "bad" ? "alert" : undefined}>
      {props.children}
    </p>
  );
}

export interface Column<R> {
  name: string;
  show: (row: R) => ComponentChildren;
  isNumber?: boolean;
}

export function Table<R>(props: { label: string; columns: Column<R>[]; rows: R[]; empty?: string; keyOf: (row: R) => string }) {
  if (props.rows.length === 0) return <p class="empty">{props.empty ?? "Nothing here."}</p>;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.name} scope="col" class={column.isNumber ? "number" : ""}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.keyOf(row)}>
              {props.columns.map((column) => (
                <td key={column.name} class={column.isNumber ? "number" : ""}>
                  {column.show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The last values of something that moves, drawn small. */
export function Trend(props: { values: number[]; label: string }) {
  const { values } = props;
  const most = Math.max(1e-9, ...values);
  const points = values.map((value, index) => `${(index / Math.max(1, values.length - 1)) * 100},${24 - (value / most) * 22}`);
  return (
    <svg class="trend" viewBox="0 0 100 26" preserveAspectRatio="none" role="img" aria-label={props.label}>
      {values.length > 1 && <polygon class="area" points={`0,26 ${points.join(" ")} 100,26`} />}
      {values.length > 1 && <polyline points={points.join(" ")} />}
    </svg>
  );
}

export function useTrend(value: number | undefined, length = 60): number[] {
  const kept = useRef<number[]>([]);
  if (value !== undefined) kept.current = [...kept.current.slice(1 - length), value];
  return kept.current;
}

/** What a dialog asks before something is done: what will happen, then the button that does it. */
export function Dialog(props: {
  title: string;
  confirm?: string;
  isDangerous?: boolean;
  isReady?: boolean;
  onConfirm?: () => Promise<void>;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const title = useId();
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (!props.onConfirm) return;
    setBusy(true);
    setProblem("");
    try {
      await props.onConfirm();
      props.onClose();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  }
  return (
    <dialog ref={element} aria-labelledby={title} onClose={props.onClose}>
      <form onSubmit={submit}>
        <h2 id={title}>{props.title}</h2>
        {props.children}
        {problem && <Note tone="bad">{problem}</Note>}
        <footer>
          <button type="button" onClick={props.onClose}>
            {props.onConfirm ? "Cancel" : "Close"}
          </button>
          {props.onConfirm && (
            <button type="submit" class={props.isDangerous ? "danger" : "primary"} disabled={isBusy || props.isReady === false}>
              {isBusy ? "Working…" : (props.confirm ?? "Do it")}
            </button>
          )}
        </footer>
      </form>
    </dialog>
  );
}

export function Field(props: { label: string; hint?: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children(id)}
      {props.hint && <small>{props.hint}</small>}
    </div>
  );
}

export interface Loaded<T> {
  value: T | undefined;
  problem: string;
  reload: () => void;
}

/** Ask once, and again when something was changed. */
export function useGet<T>(path: string | null): Loaded<T> {
  const [value, setValue] = useState<T>();
  const [problem, setProblem] = useState("");
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null) return undefined;
    let isCurrent = true;
    get<T>(path)
      .then((found) => {
        if (!isCurrent) return;
        setValue(() => found);
        setProblem("");
      })
      .catch((error: unknown) => {
        if (isCurrent) setProblem(error instanceof Refused ? error.message : String(error));
      });
    return () => {
      isCurrent = false;
    };
  }, [path, turn]);
  return { value, problem, reload: () => setTurn((before) => before + 1) };
}

export interface Live<T> {
  state: T | undefined;
  problem: string;
  connection: Connection;
}

/** Follow something while the page shows it. */
export function useWatch<T>(path: string): Live<T> {
  const [live, setLive] = useState<Live<T>>({ state: undefined, problem: "", connection: "connecting" });
  useEffect(
    () =>
      watch<T>(
        path,
        (state) => setLive({ state, problem: "", connection: "live" }),
        (problem) => setLive((before) => ({ ...before, problem })),
        (connection) => setLive((before) => ({ ...before, connection })),
      ),
    [path],
  );
  return live;
}

export function LiveMark(props: { connection: Connection }) {
  const words = { connecting: "connecting", live: "live", lost: "not live: trying again" };
  return (
    <span class={`live ${props.connection}`} role="status">
      {words[props.connection]}
    </span>
  );
}

export function useRights(query: string): Set<string> {
  const { value } = useGet<string[]>(`/console/api/rights?${query}`);
  return new Set(value ?? []);
}

export function Tabs(props: { tabs: [string, string][]; active: string; link: (tab: string) => string }) {
  return (
    <nav class="tabs" aria-label="Parts of the page">
      {props.tabs.map(([id, label]) => (
        <a key={id} href={props.link(id)} aria-current={props.active === id ? "page" : undefined}>
          {label}
        </a>
      ))}
    </nav>
  );
}

/** Names with values, one under the other; what has no value is left out. */
export function Pairs(props: { pairs: [string, ComponentChildren][] }) {
  return (
    <dl class="pairs">
      {props.pairs
        .filter(([, value]) => value !== undefined && value !== false && value !== 0 && value !== "")
        .map(([name, value]) => [<dt key={`${name} name`}>{name}</dt>, <dd key={name}>{value}</dd>])}
    </dl>
  );
}

/** A value of a policy or a key: members one under the other, in words where there are some. */
export function Value(props: { value: unknown }) {
  const { value } = props;
  if (value === undefined || value === null || value === "") return <span class="soft">not set</span>;
  if (Array.isArray(value) && value.every((each) => typeof each !== "object")) return <>{value.join(", ") || <span class="soft">none</span>}</>;
  if (typeof value !== "object") return <code>{String(value)}</code>;
  return (
    <dl class="pairs small">
      {Object.entries(value).map(([name, each]) => [
        <dt key={`${name} name`}>{name}</dt>,
        <dd key={name}>
          <Value value={each} />
        </dd>,
      ])}
    </dl>
  );
}

export function Json(props: { value: unknown }) {
  const text = typeof props.value === "string" ? props.value : JSON.stringify(props.value ?? null, null, 2);
  return (
    <pre class="json" tabIndex={0} role="group" aria-label="JSON">
      {text}
    </pre>
  );
}
