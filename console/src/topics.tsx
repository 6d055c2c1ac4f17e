import { useEffect, useRef, useState } from "preact/hooks";
import { topicLink } from "./api";
import { bytes, count, lag, short } from "./format";
import { Badge, LiveMark, Note, useWatch } from "./ui";

interface Row {
  name: string;
  kind: string;
  parts: number;
  isLoaded: boolean;
  msgRateIn: number;
  msgRateOut: number;
  bytesRateIn: number;
  storageSize: number;
  producers: number;
  consumers: number;
  subscriptions: number;
  lag: number;
  isLagExact: boolean;
}

interface Window {
  total: number;
  offset: number;
  rows: Row[];
}

const HEIGHT = 36;
const PAGE = 120;
const STEP = 40;
const COLUMNS: [keyof Row, string, boolean][] = [
  ["name", "Topic", false],
  ["kind", "Kind", false],
  ["msgRateIn", "In /s", true],
  ["msgRateOut", "Out /s", true],
  ["lag", "Lag, messages", true],
  ["subscriptions", "Subs", true],
  ["producers", "Prod", true],
  ["consumers", "Cons", true],
  ["storageSize", "Stored", true],
];

/** Only the rows that are seen, and some around them, are asked for: ten thousand topics cost as much as fifty. */
export function Topics(props: { namespace?: string }) {
  const [text, setText] = useState("");
  const [sought, setSought] = useState("");
  const [kind, setKind] = useState("");
  const [sort, setSort] = useState<keyof Row>("name");
  const [isDescending, setDescending] = useState(false);
  const [hasSystem, setSystem] = useState(false);
  const [offset, setOffset] = useState(0);
  const list = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const timer = setTimeout(() => setSought(text), 200);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    setOffset(0);
    if (list.current) list.current.scrollTop = 0;
  }, [sought, kind, sort, isDescending, hasSystem]);

  const query = new URLSearchParams({
    text: sought,
    namespace: props.namespace ?? "",
    kind,
    sort,
    descending: String(isDescending),
    offset: String(offset),
    limit: String(PAGE),
    system: String(hasSystem),
  });
  const { state, problem, connection } = useWatch<Window>(`/console/api/topics?${query.toString()}`);
  const rows = state?.rows ?? [];
  const before = (state?.offset ?? 0) * HEIGHT;
  const after = Math.max(0, (state?.total ?? 0) - (state?.offset ?? 0) - rows.length) * HEIGHT;

  function onScroll(): void {
    const first = Math.floor(list.current!.scrollTop / HEIGHT);
    const wanted = Math.max(0, Math.floor((first - STEP) / STEP) * STEP);
    if (wanted !== offset) setOffset(wanted);
  }

  function order(column: keyof Row): void {
    if (column === sort) setDescending(!isDescending);
    else {
      setSort(column);
      setDescending(column !== "name" && column !== "kind");
    }
  }

  return (
    <>
      <div class="head">
        <h1>Topics</h1>
        <span class="soft" role="status">
          {state ? count(state.total, "topic") : "…"}
        </span>
        <LiveMark connection={connection} />
      </div>
      <div class="row">
        <div class="field">
          <label for="sought">Find</label>
          <input id="sought" type="search" placeholder="a part of the name" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </div>
        <div class="field">
          <label for="kind">Kind</label>
          <select id="kind" value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            <option value="">all</option>
            <option value="scalable">scalable</option>
            <option value="partitioned">partitioned</option>
            <option value="regular">regular</option>
            <option value="non-persistent">non-persistent</option>
          </select>
        </div>
        <label class="check">
          <input type="checkbox" checked={hasSystem} onChange={(event) => setSystem(event.currentTarget.checked)} /> system topics
        </label>
      </div>
      {problem && <Note tone="bad">{problem}</Note>}
      <div class="list" ref={list} onScroll={onScroll} tabIndex={0} role="region" aria-label="Topics">
        <table aria-rowcount={(state?.total ?? 0) + 1}>
          <thead>
            <tr>
              {COLUMNS.map(([column, label, isNumber]) => (
                <th
                  key={column}
                  scope="col"
                  class={isNumber ? `number ${column}` : column}
                  aria-sort={sort === column ? (isDescending ? "descending" : "ascending") : "none"}
                >
                  <button type="button" onClick={() => order(column)}>
                    {label}
                    {sort === column ? (isDescending ? " ↓" : " ↑") : ""}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {before > 0 && (
              <tr class="space" aria-hidden="true">
                <td colSpan={COLUMNS.length} style={{ height: `${before}px` }} />
              </tr>
            )}
            {rows.map((row, index) => (
              <tr key={row.name} aria-rowindex={(state?.offset ?? 0) + index + 2}>
                <td title={row.name}>
                  <a href={topicLink(row.name)}>{row.name}</a>
                </td>
                <td>
                  <Badge tone={row.kind === "scalable" ? "accent" : ""}>{row.kind}</Badge>
                </td>
                {row.isLoaded ? (
                  <>
                    <td class="number">{short(row.msgRateIn)}</td>
                    <td class="number">{short(row.msgRateOut)}</td>
                    <td class="number">{lag(row.lag, row.isLagExact)}</td>
                    <td class="number">{row.subscriptions}</td>
                    <td class="number">{row.producers}</td>
                    <td class="number">{row.consumers}</td>
                    <td class="number">{bytes(row.storageSize)}</td>
                  </>
                ) : (
                  <td class="soft" colSpan={7}>
                    not in use
                  </td>
                )}
              </tr>
            ))}
            {after > 0 && (
              <tr class="space" aria-hidden="true">
                <td colSpan={COLUMNS.length} style={{ height: `${after}px` }} />
              </tr>
            )}
          </tbody>
        </table>
        {state?.total === 0 && <p class="empty">No topic fits. A client that opens one makes it; so does `magnetar admin topics create`.</p>}
      </div>
    </>
  );
}
