import { useEffect, useRef, useState } from "preact/hooks";
import { moment, short } from "./format";
import { activeOf, heatOf, lagOf, rangeName, segmentsOf, type Change, type ScalableState, type Segment } from "./scalable";

const WIDTH = 1000;
const NARROW = 640;
const HEIGHT = 470;
const LEFT = 46;
const TOP = 46;
const BOTTOM = HEIGHT - 6;
const GAP = 44;
const PAST = 78;
const SIDE = 212;
const LINES_WIDTH = 62;
const COLUMNS_MAX = 5;
const CONSUMERS_MAX = 14;
const RING = 65536;
/** A lag below this is a short bar, even when it is the largest. */
const LAG_MIN = 1000;
const SAMPLES_MAX = 60;
const CONSUMER_COLOURS = ["#2f6fed", "#d0549b", "#0c8f78", "#b26a00", "#8a4fd3", "#c23b3b", "#4d7c0f", "#0e7490"];
const CAUSES: Record<string, string> = { SPLIT: "split", MERGE: "merge", MIGRATE: "migrated" };

interface Box {
  segment: Segment;
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Column {
  x: number;
  when: string;
  what: string;
}

function down(hash: number): number {
  return TOP + (hash / RING) * (BOTTOM - TOP);
}

function causeOf(changes: Change[], epoch: number): string {
  const found = changes.filter((each) => each.epoch === epoch).at(-1);
  return found ? `${CAUSES[found.kind] ?? found.kind.toLowerCase()} ${found.kind === "MIGRATE" ? "" : found.segmentIds.join(" + ")}` : "created";
}

/** Columns are epochs, the last one is now and wide; what was before the first that fits is cut off. */
function arrange(state: ScalableState, right: number, columnsMax: number): { boxes: Box[]; columns: Column[]; earlier: number } {
  const segments = segmentsOf(state);
  const legacy = segments.filter((each) => each.legacy);
  const others = segments.filter((each) => !each.legacy);
  const all = [...new Set(others.map((each) => each.createdAtEpoch))].sort((a, b) => a - b);
  const epochs = all.slice(-columnsMax);
  const isFromStart = epochs.length === all.length;
  const shift = legacy.length > 0 && isFromStart ? 1 : 0;
  const columnX = (index: number): number => LEFT + index * (PAST + GAP);
  const indexOf = (epoch: number): number => {
    const found = epochs.findIndex((each) => each >= epoch);
    return (found < 0 ? epochs.length - 1 : found) + shift;
  };
  const boxes: Box[] = [];
  if (shift)
    legacy.forEach((segment, index) => {
      const height = (BOTTOM - TOP) / legacy.length;
      boxes.push({ segment, x: columnX(0), y: TOP + index * height, width: PAST, height });
    });
  for (const segment of others) {
    const isActive = segment.state === "ACTIVE";
    if (!isActive && segment.sealedAtEpoch <= (epochs[0] ?? 0)) continue;
    const x = columnX(indexOf(segment.createdAtEpoch));
    const end = isActive ? right : columnX(indexOf(segment.sealedAtEpoch)) - GAP;
    const y = down(segment.hashRange.start);
    boxes.push({ segment, x, y, width: Math.max(end - x, 8), height: down(segment.hashRange.end + 1) - y });
  }
  const changes = state.metadata.magnetarHistory ?? [];
  const columns = epochs.map((epoch, index) => {
    const born = others.find((each) => each.createdAtEpoch === epoch);
    return { x: columnX(index + shift), when: born ? moment(born.createdAtMs) : "", what: causeOf(changes, epoch) };
  });
  if (shift) columns.unshift({ x: columnX(0), when: "before", what: "regular" });
  return { boxes, columns, earlier: all.length - epochs.length };
}

/** A band from what was sealed to what followed it, as high as the part of the ring that moved. */
function Bands(props: { boxes: Box[] }) {
  const byId = new Map(props.boxes.map((box) => [box.segment.segmentId, box]));
  const paths: string[] = [];
  for (const child of props.boxes)
    for (const id of child.segment.parentIds) {
      const parent = byId.get(id);
      if (!parent) continue;
      const top = Math.max(parent.y, child.y);
      const bottom = Math.min(parent.y + parent.height, child.y + child.height);
      const isApart = parent.segment.legacy || bottom <= top;
      const [from, to] = [parent.x + parent.width + 1, child.x - 1];
      const left = isApart ? [parent.y + 2, parent.y + parent.height - 2] : [top + 2, bottom - 2];
      const right = isApart ? [child.y + 2, child.y + child.height - 2] : left;
      const middle = (from + to) / 2;
      paths.push(`M${from},${left[0]} C${middle},${left[0]} ${middle},${right[0]} ${to},${right[0]} L${to},${right[1]} C${middle},${right[1]} ${middle},${left[1]} ${from},${left[1]} Z`);
    }
  return (
    <g aria-hidden="true">
      {paths.map((path) => (
        <path key={path} class="band" d={path} />
      ))}
    </g>
  );
}

interface Assignment {
  name: string;
  isAway: boolean;
  boxes: Box[];
  segments: number[];
}

/** The consumers of a subscription, in the order of what they read, so that few lines cross. */
function assignmentsOf(state: ScalableState, subscription: string, boxes: Box[]): Assignment[] {
  const found = state.stats.subscriptions[subscription]?.consumers ?? {};
  const assignments = Object.entries(found).map(([name, each]) => ({
    name,
    isAway: !each.connected,
    segments: each.segments,
    boxes: boxes.filter((box) => each.segments.includes(box.segment.segmentId)),
  }));
  const middle = (consumer: Assignment): number => consumer.boxes.reduce((sum, box) => sum + box.y + box.height / 2, 0) / Math.max(1, consumer.boxes.length) || Infinity;
  return assignments.sort((a, b) => middle(a) - middle(b) || a.name.localeCompare(b.name));
}

function Assigned(props: { assignments: Assignment[]; right: number }) {
  const shown = props.assignments.slice(0, CONSUMERS_MAX);
  const x = props.right + LINES_WIDTH;
  const step = (BOTTOM - TOP) / Math.max(1, shown.length);
  const isTall = step >= 44;
  return (
    <g class="consumers">
      {shown.map((consumer, index) => {
        const y = TOP + step * (index + 0.5);
        const colour = CONSUMER_COLOURS[index % CONSUMER_COLOURS.length];
        const reads = consumer.segments.length === 0 ? "reads nothing yet" : `reads ${consumer.segments.slice(0, 4).join(", ")}${consumer.segments.length > 4 ? "…" : ""}`;
        return (
          <g key={consumer.name} class={`consumer ${consumer.isAway ? "away" : ""}`}>
            <title>{`${consumer.name} ${reads}${consumer.isAway ? ", not connected" : ""}`}</title>
            {consumer.boxes.map((box) => {
              const [from, at] = [box.x + box.width, box.y + box.height / 2];
              return (
                <g key={box.segment.segmentId}>
                  <path class="hand" stroke={colour} d={`M${from},${at} C${from + 34},${at} ${x - 34},${y} ${x},${y}`} />
                  <circle class="grip" cx={from} cy={at} r={3.5} fill={colour} />
                </g>
              );
            })}
            <rect x={x} y={y - (isTall ? 20 : 12)} width={SIDE - LINES_WIDTH - 2} height={isTall ? 40 : 24} rx={8} />
            <rect class="mark" x={x} y={y - (isTall ? 20 : 12)} width={5} height={isTall ? 40 : 24} rx={2.5} fill={colour} />
            <text x={x + 14} y={isTall ? y - 3 : y + 4}>
              {consumer.name.length > 19 ? `${consumer.name.slice(0, 18)}…` : consumer.name}
            </text>
            {isTall && (
              <text class="axis" x={x + 14} y={y + 12}>
                {consumer.isAway ? "away" : reads}
              </text>
            )}
          </g>
        );
      })}
      {props.assignments.length > CONSUMERS_MAX && (
        <text class="axis" x={x} y={TOP - 10}>
          and {props.assignments.length - CONSUMERS_MAX} more
        </text>
      )}
    </g>
  );
}

function useNarrow(): boolean {
  const narrow = matchMedia("(max-width: 46rem)");
  const [isNarrow, setNarrow] = useState(narrow.matches);
  useEffect(() => {
    const apply = (): void => setNarrow(narrow.matches);
    narrow.addEventListener("change", apply);
    return () => narrow.removeEventListener("change", apply);
  }, []);
  return isNarrow;
}

/** What each segment took in while the page was open, the newest last. */
function useRates(state: ScalableState): Map<number, number[]> {
  const kept = useRef({ atMs: 0, rates: new Map<number, number[]>() });
  if (kept.current.atMs !== state.atMs) {
    kept.current.atMs = state.atMs;
    for (const segment of activeOf(state)) {
      const before = kept.current.rates.get(segment.segmentId) ?? [];
      kept.current.rates.set(segment.segmentId, [...before.slice(1 - SAMPLES_MAX), state.stats.segments[segment.segmentId]?.msgRateIn ?? 0]);
    }
  }
  return kept.current.rates;
}

function Wave(props: { box: Box; rates: number[]; most: number }) {
  const { box, rates, most } = props;
  if (rates.length < 2 || box.height < 26) return null;
  const room = Math.min(box.width - 4, 420);
  const left = box.x + box.width - 2 - room;
  const foot = box.y + box.height - 2;
  const tall = Math.min(box.height - 8, 90);
  const points = rates.map((rate, index) => `${left + ((index + SAMPLES_MAX - rates.length) / (SAMPLES_MAX - 1)) * room},${foot - (rate / most) * tall}`);
  const first = left + ((SAMPLES_MAX - rates.length) / (SAMPLES_MAX - 1)) * room;
  return (
    <g class="wave" aria-hidden="true">
      <polygon points={`${first},${foot} ${points.join(" ")} ${left + room},${foot}`} />
      <polyline points={points.join(" ")} />
    </g>
  );
}

function SegmentBox(props: { state: ScalableState; box: Box; subscription: string; rates: number[]; mostRate: number; mostLag: number; isChosen: boolean; onChoose: (id: number) => void }) {
  const { state, box } = props;
  const { segment, x, y, width, height } = box;
  const stats = state.stats.segments[segment.segmentId];
  const isActive = segment.state === "ACTIVE";
  const heat = isActive ? heatOf(stats, state.stats.autoScale.policy) : 0;
  const share = Math.round(Math.min(1, Math.sqrt(heat)) * 100);
  const fill = !isActive ? undefined : heat >= 1 ? "var(--over)" : `color-mix(in srgb, var(--hot) ${share}%, var(--cool))`;
  const late = lagOf(state, segment.segmentId, props.subscription);
  const isFresh = state.atMs - segment.createdAtMs < 4000 && !segment.legacy;
  const kind = `segment ${isActive ? "active" : "sealed"} ${segment.legacy ? "legacy" : ""} ${isFresh ? "fresh" : ""} ${props.isChosen ? "chosen" : ""} ${share > 70 || heat >= 1 ? "onhot" : ""}`;
  const rates = `${short(stats?.msgRateIn ?? 0)}/s in · ${short(stats?.msgRateOut ?? 0)}/s out`;
  const lagging = late > 0 ? `lag ${short(late)}` : "";
  const place = segment.legacyTopicName ?? rangeName(segment);
  const lines = (isActive ? [rangeName(segment), rates, lagging] : [lagging]).filter((each) => each !== "");
  const words = [segment.segmentId, ...lines].join(" · ");
  const label = `Segment ${words}, ${isActive ? "active" : `sealed, ${place}`}`;
  const shown = isActive && width <= 190 ? lines.slice(2) : lines;
  const isStacked = height >= 58;
  const bar = Math.min(6, height / 4);
  return (
    <g
      class={kind}
      role="button"
      tabindex={0}
      aria-label={label}
      aria-pressed={props.isChosen}
      onClick={() => props.onChoose(segment.segmentId)}
      onKeyDown={(event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          props.onChoose(segment.segmentId);
        }
      }}
    >
      <title>{label}</title>
      <rect class="body" x={x} y={y + 1} width={width} height={Math.max(2, height - 2)} rx={Math.min(8, height / 3)} fill={fill} />
      {isActive && <Wave box={box} rates={props.rates} most={props.mostRate} />}
      {late > 0 && height > 12 && <rect class="lag" x={x + 8} y={y + height - bar - 5} width={Math.max(6, (late / props.mostLag) * (width - 16))} height={bar} rx={bar / 2} />}
      {height >= 15 && (
        <text x={x + 10} y={y + Math.min(height / 2 + 4, 21)}>
          <tspan class="id">{segment.segmentId}</tspan>
          {shown.map((line, index) => {
            const isBelow = isStacked && (index > 0 || !isActive);
            return (
              <>
                <tspan class={isStacked ? "gap" : ""}> · </tspan>
                <tspan class={index === 0 && isActive ? "range" : ""} x={isBelow ? x + 10 : undefined} dy={isBelow ? 17 : undefined}>
                  {line}
                </tspan>
              </>
            );
          })}
        </text>
      )}
    </g>
  );
}

/** The segments of a topic: ranges of the hash ring downwards, their history from left to right. */
export function Picture(props: { state: ScalableState; subscription: string; chosen: number | null; onChoose: (id: number) => void }) {
  const { state, subscription } = props;
  const rates = useRates(state);
  const isNarrow = useNarrow();
  const width = isNarrow ? NARROW : WIDTH;
  const hasConsumers = Object.keys(state.stats.subscriptions[subscription]?.consumers ?? {}).length > 0;
  const right = width - (hasConsumers ? SIDE : 8);
  const { boxes, columns, earlier } = arrange(state, right, isNarrow ? 2 : COLUMNS_MAX);
  const mostLag = Math.max(LAG_MIN, ...boxes.map((box) => lagOf(state, box.segment.segmentId, subscription)));
  const active = activeOf(state);
  const mostRate = Math.max(1, ...active.flatMap((each) => rates.get(each.segmentId) ?? []));
  const summary = `${active.length} active segments at epoch ${state.stats.epoch}: ${active.map((each) => `${each.segmentId} from ${rangeName(each)}`).join(", ")}`;
  return (
    <svg class={`picture ${isNarrow ? "narrow" : ""}`} viewBox={`0 0 ${width} ${HEIGHT}`} role="group" aria-label={`Segments over time. ${summary}`}>
      <defs>
        <pattern id="legacy" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="8" height="8" fill="var(--sealed)" />
          <rect width="3" height="8" fill="var(--line)" />
        </pattern>
      </defs>
      <g aria-hidden="true">
        {[0, 0.25, 0.5, 0.75, 1].map((share) => {
          const y = TOP + share * (BOTTOM - TOP);
          const at = Math.min(RING - 1, share * RING);
          return (
            <g key={share}>
              <line class="edge" x1={LEFT - 6} x2={right} y1={y} y2={y} />
              <text class="axis" x={LEFT - 10} y={y + (share === 0 ? 8 : share === 1 ? 0 : 4)} text-anchor="end">
                {at.toString(16).padStart(4, "0")}
              </text>
            </g>
          );
        })}
        {columns.map((column) => (
          <g key={column.x}>
            <text class="axis" x={column.x} y={15}>
              {column.when}
            </text>
            <text class="cause" x={column.x} y={31}>
              {column.what}
            </text>
          </g>
        ))}
        {earlier > 0 && (
          <text class="axis" x={LEFT - 10} y={15} text-anchor="end">
            ‹ {earlier}
          </text>
        )}
        <text class="axis" x={right} y={15} text-anchor="end">
          now
        </text>
        {hasConsumers && (
          <text class="axis" x={right + LINES_WIDTH} y={15}>
            {subscription} reads
          </text>
        )}
      </g>
      <Bands boxes={boxes} />
      {boxes.map((box) => (
        <SegmentBox
          key={box.segment.segmentId}
          state={state}
          box={box}
          subscription={subscription}
          rates={rates.get(box.segment.segmentId) ?? []}
          mostRate={mostRate}
          mostLag={mostLag}
          isChosen={props.chosen === box.segment.segmentId}
          onChoose={props.onChoose}
        />
      ))}
      <line class="now" x1={right} x2={right} y1={TOP - 6} y2={BOTTOM} aria-hidden="true" />
      {hasConsumers && <Assigned assignments={assignmentsOf(state, subscription, boxes)} right={right} />}
    </svg>
  );
}

export function Legend() {
  return (
    <div class="legend" aria-label="Legend">
      <span><i class="scale" />from idle to the rate at which it splits</span>
      <span><i class="over" />above it</span>
      <span><i class="was" />sealed: read, not written</span>
      <span><i class="late" />lag, the widest is the largest</span>
      <span><i class="rate" />messages in</span>
    </div>
  );
}

export function Ring(props: { segments: { id: number; hashRange: string; share: number }[]; made: Set<number>; label: string }) {
  return (
    <div class="ring" role="img" aria-label={props.label}>
      {props.segments.map((each) => (
        <div key={each.id} class={props.made.has(each.id) ? "made" : ""} style={{ flexGrow: String(each.share), flexBasis: "0" }} title={each.hashRange}>
          {each.share > 0.04 ? each.id : ""}
        </div>
      ))}
    </div>
  );
}
