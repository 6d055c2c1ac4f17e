// The state of a scalable topic as the broker tells it, and what is worked out from it.

export interface Segment {
  segmentId: number;
  hashRange: { start: number; end: number };
  state: string;
  parentIds: number[];
  childIds: number[];
  createdAtEpoch: number;
  sealedAtEpoch: number;
  createdAtMs: number;
  sealedAtMs: number;
  legacy: boolean;
  legacyTopicName?: string;
}

export interface SegmentStats {
  name: string;
  state: string;
  hashRange: string;
  msgRateIn: number;
  bytesRateIn: number;
  msgRateOut: number;
  bytesRateOut: number;
  isLoaded: boolean;
  isMissing: boolean;
  msgInCounter?: number;
  storageSize?: number;
  producerCount?: number;
  consumerCount?: number;
}

export interface Subscription {
  type?: string;
  consumerCount: number;
  consumers?: Record<string, { connected: boolean; segments: number[] }>;
  waiting?: unknown[];
  msgBacklog?: number;
  backlog?: Record<string, number>;
  lag?: Record<string, number>;
  isLagEstimated?: boolean;
}

export interface Change {
  epoch: number;
  kind: string;
  segmentIds: number[];
  childIds: number[];
  atMs: number;
  reason?: string;
}

export interface Decision {
  atMs: number;
  trigger: string;
  epoch: number;
  activeSegments: number;
  consumers: number;
  decision: string;
  reason: string;
  heldBy: string[];
  explanation: string[];
  failure?: string;
}

export type ScalePolicy = Record<string, { value: number | boolean; source: string }>;

export interface ScalableState {
  kind: "scalable";
  atMs: number;
  metadata: {
    epoch: number;
    segments: Record<string, Segment>;
    properties: Record<string, string>;
    migratedFrom?: { topicName: string; partitions: number };
    magnetarHistory?: Change[];
  };
  stats: {
    epoch: number;
    activeSegments: number;
    sealedSegments: number;
    totalSegments: number;
    change?: string;
    segments: Record<string, SegmentStats>;
    subscriptions: Record<string, Subscription>;
    autoScale: { policy: ScalePolicy; lastDecision?: Decision };
  };
  explain: { scaling: string[]; subscriptions: Record<string, unknown> };
  decisions: Decision[];
}

export function segmentsOf(state: ScalableState): Segment[] {
  return Object.values(state.metadata.segments).sort((a, b) => a.segmentId - b.segmentId);
}

export function activeOf(state: ScalableState): Segment[] {
  return segmentsOf(state)
    .filter((segment) => segment.state === "ACTIVE")
    .sort((a, b) => a.hashRange.start - b.hashRange.start);
}

export function rangeName(segment: Segment): string {
  const hex = (value: number): string => value.toString(16).padStart(4, "0");
  return `${hex(segment.hashRange.start)}–${hex(segment.hashRange.end)}`;
}

/** How near the hottest of a segment's rates is to the one at which it splits; 1 is there. */
export function heatOf(stats: SegmentStats | undefined, policy: ScalePolicy): number {
  if (!stats) return 0;
  const limit = (name: string): number => Number(policy[name]?.value) || Infinity;
  return Math.max(
    stats.msgRateIn / limit("splitMsgRateInThreshold"),
    stats.msgRateOut / limit("splitMsgRateOutThreshold"),
    stats.bytesRateIn / limit("splitBytesRateInThreshold"),
    stats.bytesRateOut / limit("splitBytesRateOutThreshold"),
  );
}

/** Messages that a subscription, or the slowest of all, has not acknowledged of a segment. */
export function lagOf(state: ScalableState, segment: number, subscription = ""): number {
  return Math.max(0, ...chosen(state, subscription).map((each) => each.lag?.[segment] ?? 0));
}

function chosen(state: ScalableState, subscription: string): Subscription[] {
  return Object.entries(state.stats.subscriptions)
    .filter(([name]) => subscription === "" || name === subscription)
    .map(([, each]) => each);
}

export function totalLag(state: ScalableState, subscription: string): number {
  return segmentsOf(state).reduce((sum, each) => sum + lagOf(state, each.segmentId, subscription), 0);
}

export function isLagExact(state: ScalableState, subscription = ""): boolean {
  return chosen(state, subscription).every((each) => !each.isLagEstimated);
}

export interface CoolDown {
  kind: string;
  leftS: number;
  wholeS: number;
}

export function coolDowns(state: ScalableState): CoolDown[] {
  const policy = state.stats.autoScale.policy;
  const found: CoolDown[] = [];
  for (const [kind, key] of [
    ["SPLIT", "splitCooldownSeconds"],
    ["MERGE", "mergeCooldownSeconds"],
  ] as const) {
    const last = (state.metadata.magnetarHistory ?? []).filter((each) => each.kind === kind).at(-1);
    const wholeS = Number(policy[key]?.value ?? 0);
    const leftS = last ? wholeS - (state.atMs - last.atMs) / 1000 : 0;
    found.push({ kind: kind.toLowerCase(), leftS: Math.max(0, leftS), wholeS });
  }
  return found;
}
