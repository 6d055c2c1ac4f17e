import { useEffect, useState } from "preact/hooks";
import { consolePath, get, post, remove, restPath, type Topic } from "./api";
import { bytes, count, lag, moment, seconds, short, whole } from "./format";
import { Legend, Picture, Ring } from "./picture";
import { activeOf, coolDowns, heatOf, isLagExact, lagOf, rangeName, segmentsOf, type ScalableState } from "./scalable";
import { Badge, Card, Dialog, Field, Note, Table } from "./ui";

interface Shown {
  id: number;
  hashRange: string;
  share: number;
}

interface Preview {
  before: number;
  after: number;
  steps?: number;
  sealed: Shown[];
  made: Shown[];
  layout: Shown[];
  sentences: string[];
}

type Asked =
  | { kind: "split"; segment: number }
  | { kind: "merge"; left: number; right: number }
  | { kind: "scale" }
  | { kind: "override"; field: string };

function PreviewOf(props: { topic: Topic; query: string; active: Shown[]; onReady: (isReady: boolean) => void }) {
  const [found, setFound] = useState<Preview>();
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isCurrent = true;
    get<Preview>(`${consolePath(props.topic)}/preview?${props.query}`)
      .then((value) => {
        if (!isCurrent) return;
        setFound(value);
        setProblem("");
        props.onReady(value.made.length > 0);
      })
      .catch((error: Error) => {
        if (!isCurrent) return;
        setProblem(error.message);
        props.onReady(false);
      });
    return () => {
      isCurrent = false;
    };
  }, [props.query]);
  if (problem) return <Note tone="bad">{problem}</Note>;
  if (!found) return <p class="empty">Working out what will happen…</p>;
  const made = new Set(found.made.map((each) => each.id));
  return (
    <div class="what">
      <h3>Now: {count(found.before, "active segment")}</h3>
      <Ring segments={props.active} made={new Set()} label={`${found.before} segments now`} />
      <h3>Then: {found.after}</h3>
      <Ring segments={found.layout} made={made} label={`${found.after} segments then`} />
      <ul>
        {found.sentences.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
        {found.steps !== undefined && found.steps > 1 && <li>It takes {found.steps} steps, one after the other.</li>}
      </ul>
    </div>
  );
}

export function Scaling(props: { topic: Topic; state: ScalableState; rights: Set<string> }) {
  const { topic, state, rights } = props;
  const names = Object.keys(state.stats.subscriptions).sort();
  const streams = names.filter((name) => Object.keys(state.stats.subscriptions[name].consumers ?? {}).length > 0);
  const [wanted, setWanted] = useState<string>();
  const subscription = wanted ?? streams[0] ?? names[0] ?? "";
  const [chosen, setChosen] = useState<number | null>(null);
  const [asked, setAsked] = useState<Asked>();
  const segment = chosen === null ? undefined : state.metadata.segments[chosen];
  const active = activeOf(state);
  const place = active.findIndex((each) => each.segmentId === chosen);
  const neighbour = place < 0 ? undefined : (active[place + 1] ?? active[place - 1]);
  const stats = chosen === null ? undefined : state.stats.segments[chosen];
  const policy = state.stats.autoScale.policy;
  return (
    <div class="grid">
      <Card
        wide
        title={`${count(state.stats.activeSegments, "active segment")}, epoch ${state.stats.epoch}`}
        actions={
          <>
            {names.length > 0 && (
              <label>
                Subscription{" "}
                <select value={subscription} onChange={(event) => setWanted(event.currentTarget.value)}>
                  {names.map((name) => (
                    <option key={name}>{name}</option>
                  ))}
                </select>
              </label>
            )}
            {rights.has("scalable_topics.scale") && (
              <button type="button" onClick={() => setAsked({ kind: "scale" })}>
                Pre-scale
              </button>
            )}
          </>
        }
      >
        {state.stats.change && <Note tone="warn">Under way: {state.stats.change}</Note>}
        <div class="scroll" tabIndex={0} role="group" aria-label="The picture">
          <Picture state={state} subscription={subscription} chosen={chosen} onChoose={setChosen} />
        </div>
        <Legend />
        {segment && (
          <div class="chosen">
            <h3>
              Segment {segment.segmentId} <Badge tone={segment.state === "ACTIVE" ? "good" : ""}>{segment.state.toLowerCase()}</Badge>
            </h3>
            <dl class="pairs">
              <dt>Range</dt>
              <dd>{segment.legacyTopicName ?? rangeName(segment)}</dd>
              <dt>Since</dt>
              <dd>
                {moment(segment.createdAtMs)}
                {segment.sealedAtMs > 0 && `, sealed ${moment(segment.sealedAtMs)}`}
              </dd>
              {stats && (
                <>
                  <dt>In</dt>
                  <dd>
                    {short(stats.msgRateIn)} messages/s, {bytes(stats.bytesRateIn)}/s
                  </dd>
                  <dt>Out</dt>
                  <dd>
                    {short(stats.msgRateOut)} messages/s, {bytes(stats.bytesRateOut)}/s
                  </dd>
                  <dt>Of the rate that splits it</dt>
                  <dd>{Math.round(heatOf(stats, policy) * 100)} %</dd>
                  <dt>Stored</dt>
                  <dd>{bytes(stats.storageSize ?? 0)}</dd>
                </>
              )}
              <dt>Parents, children</dt>
              <dd>
                {segment.parentIds.join(", ") || "none"} → {segment.childIds.join(", ") || "none"}
              </dd>
            </dl>
            {segment.state === "ACTIVE" && (
              <div class="actions">
                {rights.has("scalable_topics.split") && (
                  <button type="button" onClick={() => setAsked({ kind: "split", segment: segment.segmentId })}>
                    Split segment {segment.segmentId}
                  </button>
                )}
                {neighbour && rights.has("scalable_topics.merge") && (
                  <button
                    type="button"
                    onClick={() => setAsked({ kind: "merge", left: segment.segmentId, right: neighbour.segmentId })}
                  >
                    Merge with {neighbour.segmentId}
                  </button>
                )}
              </div>
            )}
          </div>
        )}
      </Card>
      <Card title="Why this layout">
        <p>{state.explain.scaling[0]}</p>
        <ul>
          {state.explain.scaling.slice(1).map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
        <h3>Cool-downs</h3>
        {coolDowns(state).map((each) => (
          <div key={each.kind} class="cooldown">
            <span>After a {each.kind}</span>
            <div class="meter" role="meter" aria-label={`Cool-down of a ${each.kind}`} aria-valuemin={0} aria-valuemax={each.wholeS} aria-valuenow={Math.round(each.leftS)}>
              <div style={{ width: `${(each.leftS / Math.max(1, each.wholeS)) * 100}%` }} />
            </div>
            {each.leftS > 0 ? <small>{seconds(each.leftS)} of {seconds(each.wholeS)} left</small> : <Badge tone="good">over</Badge>}
          </div>
        ))}
        {Object.entries(state.explain.subscriptions).map(([name, why]) =>
          Array.isArray(why) && why.length > 0 ? (
            <div key={name}>
              <h3>What {name} waits for</h3>
              <ul>
                {why.map((sentence) => (
                  <li key={String(sentence)}>{typeof sentence === "string" ? sentence : JSON.stringify(sentence)}</li>
                ))}
              </ul>
            </div>
          ) : null,
        )}
      </Card>
      <Card title="Decisions of the controller">
        <div class="scroll" tabIndex={0} role="group" aria-label="Decisions" style={{ maxHeight: "24rem", overflowY: "auto" }}>
          {[...state.decisions].reverse().map((each) => (
            <div key={`${each.atMs}${each.trigger}`} class={`decision ${each.decision}`}>
              <p>
                <Badge tone={each.decision === "stay" ? "" : "accent"}>{each.decision}</Badge> {moment(each.atMs)} <span class="soft">· {each.trigger}, {count(each.activeSegments, "segment")}</span>
              </p>
              {each.explanation.map((sentence) => (
                <p key={sentence} class="soft">
                  {sentence}
                </p>
              ))}
              {each.failure && <Note tone="bad">{each.failure}</Note>}
            </div>
          ))}
          {state.decisions.length === 0 && <p class="empty">None yet: the controller decides when load is reported or a consumer connects.</p>}
        </div>
      </Card>
      <Card title="Segments" wide>
        <Table
          label="Segments"
          rows={segmentsOf(state)}
          keyOf={(each) => String(each.segmentId)}
          columns={[
            { name: "Id", show: (each) => each.segmentId },
            { name: "Range", show: (each) => each.legacyTopicName ?? rangeName(each) },
            { name: "State", show: (each) => <Badge tone={each.state === "ACTIVE" ? "good" : ""}>{each.legacy ? "was regular" : each.state.toLowerCase()}</Badge> },
            { name: "In /s", isNumber: true, show: (each) => short(state.stats.segments[each.segmentId]?.msgRateIn ?? 0) },
            { name: "Out /s", isNumber: true, show: (each) => short(state.stats.segments[each.segmentId]?.msgRateOut ?? 0) },
            { name: "Lag, messages", isNumber: true, show: (each) => lag(lagOf(state, each.segmentId, subscription), isLagExact(state, subscription)) },
            { name: "Stored", isNumber: true, show: (each) => bytes(state.stats.segments[each.segmentId]?.storageSize ?? 0) },
          ]}
        />
      </Card>
      <Card title="Changes" wide>
        <Table
          label="Changes of the layout"
          rows={[...(state.metadata.magnetarHistory ?? [])].reverse()}
          keyOf={(each) => `${each.epoch}${each.kind}`}
          empty="The layout has not changed since the topic was created."
          columns={[
            { name: "When", show: (each) => moment(each.atMs) },
            { name: "What", show: (each) => each.kind.toLowerCase() },
            { name: "Segments", show: (each) => `${each.segmentIds.join(", ")} → ${each.childIds.join(", ") || "none"}` },
            { name: "Why", show: (each) => <Cause of={each.reason} /> },
            { name: "Epoch", isNumber: true, show: (each) => each.epoch },
          ]}
        />
      </Card>
      <Card title="How it scales itself" wide>
        <Table
          label="Auto-scale policy"
          rows={Object.entries(policy)}
          keyOf={([name]) => name}
          columns={[
            { name: "Setting", show: ([name]) => <code>{name}</code> },
            { name: "In force", isNumber: true, show: ([, each]) => (typeof each.value === "number" ? whole(each.value) : String(each.value)) },
            { name: "From", show: ([, each]) => <Badge tone={each.source === "topic" ? "accent" : ""}>{each.source}</Badge> },
            {
              name: "Actions",
              show: ([name]) =>
                rights.has("scalable_topics.set_auto_scale_policy") && (
                  <button type="button" class="small" onClick={() => setAsked({ kind: "override", field: name })}>
                    Override <span class="hidden">{name}</span>
                  </button>
                ),
            },
          ]}
        />
      </Card>
      {asked && <Ask topic={topic} state={state} asked={asked} onClose={() => setAsked(undefined)} />}
    </div>
  );
}

const BY_HAND: Record<string, string> = { manual: "asked for", scale: "pre-scaled", "": "" };

function Cause(props: { of: string | undefined }) {
  const reason = props.of ?? "";
  return reason in BY_HAND ? <>{BY_HAND[reason]}</> : <>load: <code>{reason}</code></>;
}

function Ask(props: { topic: Topic; state: ScalableState; asked: Asked; onClose: () => void }) {
  const { topic, state, asked } = props;
  const path = restPath(topic);
  const [isReady, setReady] = useState(false);
  const [at, setAt] = useState("");
  const [count, setCount] = useState(state.stats.activeSegments * 2);
  const [hours, setHours] = useState(1);
  const policy = state.stats.autoScale.policy;
  const present = asked.kind === "override" ? policy[asked.field] : undefined;
  const [value, setValue] = useState(String(present?.value ?? ""));
  const active = activeOf(state).map((each) => ({
    id: each.segmentId,
    hashRange: rangeName(each),
    share: (each.hashRange.end - each.hashRange.start + 1) / 65536,
  }));
  switch (asked.kind) {
    case "split": {
      const query = `segment=${asked.segment}${at ? `&at=${parseInt(at, 16)}` : ""}`;
      return (
        <Dialog title={`Split segment ${asked.segment}`} confirm="Split" isReady={isReady} onClose={props.onClose} onConfirm={async () => void (await post(`${path}/split/${asked.segment}${at ? `?at=0x${at}` : ""}`))}>
          <Field label="At hash" hint="hexadecimal; empty: in the middle">
            {(id) => <input id={id} pattern="[0-9a-fA-F]{1,4}" value={at} onInput={(event) => setAt(event.currentTarget.value.replace(/[^0-9a-fA-F]/g, ""))} />}
          </Field>
          <PreviewOf topic={topic} query={query} active={active} onReady={setReady} />
        </Dialog>
      );
    }
    case "merge":
      return (
        <Dialog title={`Merge segments ${asked.left} and ${asked.right}`} confirm="Merge" isReady={isReady} onClose={props.onClose} onConfirm={async () => void (await post(`${path}/merge/${asked.left}/${asked.right}`))}>
          <PreviewOf topic={topic} query={`left=${asked.left}&right=${asked.right}`} active={active} onReady={setReady} />
        </Dialog>
      );
    case "scale":
      return (
        <Dialog
          title="Pre-scale"
          confirm={`Scale to ${count}`}
          isReady={isReady || hours > 0}
          onClose={props.onClose}
          onConfirm={async () => void (await post(`${path}/scale?segments=${count}${hours > 0 ? `&holdUntil=${Date.now() + Math.round(hours * 3_600_000)}` : ""}`))}
        >
          <div class="row">
            <Field label="Active segments">{(id) => <input id={id} type="number" min={1} max={256} value={count} onInput={(event) => setCount(event.currentTarget.valueAsNumber || 1)} />}</Field>
            <Field label="Not fewer for, hours">{(id) => <input id={id} type="number" min={0} max={720} step="any" value={hours} onInput={(event) => setHours(event.currentTarget.valueAsNumber || 0)} />}</Field>
          </div>
          <PreviewOf topic={topic} query={`count=${count}`} active={active} onReady={setReady} />
          {hours > 0 && <Note>Until {moment(Date.now() + hours * 3_600_000)} the topic keeps at least {count} segments, however little they carry.</Note>}
        </Dialog>
      );
    case "override": {
      const isFlag = typeof present?.value === "boolean";
      return (
        <Dialog
          title={`Override ${asked.field}`}
          confirm={value === "" ? "Take the override away" : "Set"}
          isReady={value === "" || (isFlag ? value !== String(present?.value) || present?.source !== "topic" : !Number.isNaN(Number(value)))}
          onClose={props.onClose}
          onConfirm={async () => {
            const own = (await get<Record<string, unknown> | null>(`${path}/autoScalePolicy`)) ?? {};
            if (value === "") delete own[asked.field];
            else own[asked.field] = isFlag ? value === "true" : Number(value);
            if (Object.keys(own).length === 0) await remove(`${path}/autoScalePolicy`);
            else await post(`${path}/autoScalePolicy`, own);
          }}
        >
          <Field label="Value for this topic" hint="Empty: as the namespace or the broker says.">
            {(id) =>
              isFlag ? (
                <select id={id} value={value} onChange={(event) => setValue(event.currentTarget.value)}>
                  <option value="true">true</option>
                  <option value="false">false</option>
                  <option value="">as the namespace or the broker says</option>
                </select>
              ) : (
                <input id={id} inputMode="decimal" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
              )
            }
          </Field>
          <Note>
            What will happen: <code>{asked.field}</code> is <strong>{String(present?.value)}</strong> now, from the {present?.source}; then{" "}
            <strong>{value === "" ? "what the namespace or the broker says" : value}</strong>, for this topic alone. The controller uses it at its next decision; nothing splits or merges at once.
          </Note>
        </Dialog>
      );
    }
  }
}
