import { moment, short } from "./format";
import { activeOf, heatOf, lagOf, rangeName, segmentsOf, type ScalableState, type Segment } from "./scalable";

const WIDTH = 1000;
const HEIGHT = 430;
const LEFT = 50;
const TOP = 26;
const GAP = 26;
const PAST = 96;
const SIDE = 190;
const COLUMNS_MAX = 5;
const RING = 65536;
const HANDS = ["#2f6fed", "#d0549b", "#0c8f78", "#b26a00", "#8a4fd3", "#c23b3b", "#4d7c0f", "#0e7490"];

interface Box {
  segment: Segment;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Columns are epochs, the last one is now and wide; what was before the first that fits is cut off. */
function arrange(state: ScalableState, right: number): { boxes: Box[]; columns: { x: number; label: string }[] } {
  const segments = segmentsOf(state);
  const legacy = segments.filter((each) => each.legacy);
  const others = segments.filter((each) => !each.legacy);
  const epochs = [...new Set(others.map((each) => each.createdAtEpoch))].sort((a, b) => a - b).slice(-COLUMNS_MAX);
  const shift = legacy.length > 0 ? 1 : 0;
  const columnX = (index: number): number => LEFT + index * (PAST + GAP);
  const indexOf = (epoch: number): number => {
    const found = epochs.findIndex((each) => each >= epoch);
    return (found < 0 ? epochs.length - 1 : found) + shift;
  };
  const boxes: Box[] = [];
  legacy.forEach((segment, index) => {
    const height = (HEIGHT - TOP) / legacy.length;
    boxes.push({ segment, x: columnX(0), y: TOP + index * height, width: PAST, height });
  });
  for (const segment of others) {
    const isActive = segment.state === "ACTIVE";
    if (!isActive && segment.sealedAtEpoch <= (epochs[0] ?? 0)) continue;
    const x = columnX(indexOf(segment.createdAtEpoch));
    const end = isActive ? right : columnX(indexOf(segment.sealedAtEpoch)) - GAP;
    const y = TOP + (segment.hashRange.start / RING) * (HEIGHT - TOP);
    const height = ((segment.hashRange.end + 1 - segment.hashRange.start) / RING) * (HEIGHT - TOP);
    boxes.push({ segment, x, y, width: Math.max(end - x, 8), height });
  }
  const columns = epochs.map((epoch, index) => {
    const born = others.find((each) => each.createdAtEpoch === epoch);
    return { x: columnX(index + shift), label: born ? moment(born.createdAtMs) : "" };
  });
  if (shift) columns.unshift({ x: columnX(0), label: "was regular" });
  return { boxes, columns };
}

function Links(props: { boxes: Box[] }) {
  const byId = new Map(props.boxes.map((box) => [box.segment.segmentId, box]));
  const paths: string[] = [];
  for (const child of props.boxes)
    for (const id of child.segment.parentIds) {
      const parent = byId.get(id);
      if (!parent) continue;
      const from = parent.x + parent.width;
      const top = Math.max(parent.y, child.y);
      const bottom = Math.min(parent.y + parent.height, child.y + child.height);
      const isApart = parent.segment.legacy || bottom <= top;
      const start = isApart ? parent.y + parent.height / 2 : (top + bottom) / 2;
      const end = isApart ? child.y + child.height / 2 : (top + bottom) / 2;
      const middle = (from + child.x) / 2;
      paths.push(`M${from},${start} C${middle},${start} ${middle},${end} ${child.x},${end}`);
    }
  return (
    <g aria-hidden="true">
      {paths.map((path) => (
        <path key={path} class="link" d={path} />
      ))}
    </g>
  );
}

function Assigned(props: { state: ScalableState; subscription: string; boxes: Box[]; right: number }) {
  const found = props.state.stats.subscriptions[props.subscription]?.consumers ?? {};
  const names = Object.keys(found).sort().slice(0, 16);
  const x = props.right + 46;
  const step = (HEIGHT - TOP) / Math.max(1, names.length);
  return (
    <g class="consumers">
      {names.map((name, index) => {
        const y = TOP + step * (index + 0.5);
        const colour = HANDS[index % HANDS.length];
        const boxes = props.boxes.filter((box) => found[name].segments.includes(box.segment.segmentId));
        return (
          <g key={name} class="consumer">
            {boxes.map((box) => (
              <path
                key={box.segment.segmentId}
                class="hand"
                stroke={colour}
                d={`M${box.x + box.width},${box.y + box.height / 2} C${box.x + box.width + 24},${box.y + box.height / 2} ${x - 24},${y} ${x},${y}`}
              />
            ))}
            <rect x={x} y={y - 13} width={SIDE - 50} height={26} rx={6} />
            <circle cx={x + 10} cy={y} r={4} fill={colour} />
            <text x={x + 20} y={y + 4}>
              {name.length > 17 ? `${name.slice(0, 16)}…` : name}
            </text>
          </g>
        );
      })}
    </g>
  );
}

/** The segments of a topic: ranges of the hash ring downwards, their history from left to right. */
export function Picture(props: { state: ScalableState; subscription: string; chosen: number | null; onChoose: (id: number) => void }) {
  const { state, subscription } = props;
  const hasConsumers = Object.keys(state.stats.subscriptions[subscription]?.consumers ?? {}).length > 0;
  const right = hasConsumers ? WIDTH - SIDE : WIDTH - 8;
  const { boxes, columns } = arrange(state, right);
  const policy = state.stats.autoScale.policy;
  const mostLag = Math.max(1, ...boxes.map((box) => lagOf(state, box.segment.segmentId, subscription)));
  const active = activeOf(state);
  const summary = `${active.length} active segments at epoch ${state.stats.epoch}: ${active.map((each) => `${each.segmentId} from ${rangeName(each)}`).join(", ")}`;
  return (
    <svg class="picture" viewBox={`0 0 ${WIDTH} ${HEIGHT + 4}`} role="group" aria-label={`Segments over time. ${summary}`}>
      <defs>
        <pattern id="legacy" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="8" height="8" fill="var(--sealed)" />
          <rect width="3" height="8" fill="var(--line)" />
        </pattern>
      </defs>
      <g aria-hidden="true">
        {[0, 0.25, 0.5, 0.75, 1].map((share) => {
          const y = TOP + share * (HEIGHT - TOP);
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
          <text key={column.x} class="axis" x={column.x} y={16}>
            {column.label}
          </text>
        ))}
        <text class="axis" x={right} y={16} text-anchor="end">
          now
        </text>
      </g>
      <Links boxes={boxes} />
      {boxes.map(({ segment, x, y, width, height }) => {
        const stats = state.stats.segments[segment.segmentId];
        const isActive = segment.state === "ACTIVE";
        const heat = isActive ? heatOf(stats, policy) : 0;
        const share = Math.round(Math.min(1, Math.sqrt(heat)) * 100);
        const fill = !isActive ? undefined : heat >= 1 ? "#d5384a" : `color-mix(in srgb, var(--hot) ${share}%, var(--cool))`;
        const late = lagOf(state, segment.segmentId, subscription);
        const isFresh = state.atMs - segment.createdAtMs < 4000 && !segment.legacy;
        const kind = `segment ${isActive ? "active" : "sealed"} ${segment.legacy ? "legacy" : ""} ${isFresh ? "fresh" : ""} ${props.chosen === segment.segmentId ? "chosen" : ""}`;
        const rates = `${short(stats?.msgRateIn ?? 0)}/s in · ${short(stats?.msgRateOut ?? 0)}/s out`;
        const shown = `${segment.segmentId}${isActive && width > 220 ? ` · ${rangeName(segment)} · ${rates}` : ""}${late ? ` · lag ${short(late)}` : ""}`;
        const place = segment.legacyTopicName ?? rangeName(segment);
        const label = `Segment ${shown}, ${isActive ? "active" : `sealed, ${place}`}`;
        return (
          <g
            key={segment.segmentId}
            class={kind}
            role="button"
            tabindex={0}
            aria-label={label}
            aria-pressed={props.chosen === segment.segmentId}
            onClick={() => props.onChoose(segment.segmentId)}
            onKeyDown={(event) => {
              if (event.key === "Enter" || event.key === " ") {
                event.preventDefault();
                props.onChoose(segment.segmentId);
              }
            }}
          >
            <title>{label}</title>
            <rect class="body" x={x} y={y} width={width} height={height} rx={Math.min(6, height / 3)} fill={fill} />
            {late > 0 && height > 5 && <rect class="lag" x={x + 2} y={y + height - Math.min(6, height / 3) - 1} width={Math.max(3, (late / mostLag) * (width - 4))} height={Math.min(5, height / 3)} rx={2} />}
            {height >= 15 && (
              <text x={x + 8} y={y + Math.min(height / 2 + 4, 22)} class={share > 70 || heat >= 1 ? "onhot" : ""}>
                {shown}
              </text>
            )}
          </g>
        );
      })}
      {hasConsumers && <Assigned state={state} subscription={subscription} boxes={boxes} right={right} />}
    </svg>
  );
}

export function Legend() {
  return (
    <div class="legend" aria-label="Legend">
      <span><i class="cool" />little load</span>
      <span><i class="hot" />near the rate at which it splits</span>
      <span><i class="over" />above it</span>
      <span><i class="was" />sealed: read, not written</span>
      <span><i class="late" />lag, the widest is the largest</span>
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
