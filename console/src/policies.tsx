import { useState } from "preact/hooks";
import { call } from "./api";
import { Badge, Card, Dialog, Field, Note, Pairs, Table, Value, useGet } from "./ui";

interface Policy {
  name: string;
  what: string;
  path: string;
  inQuery: boolean;
  write: string;
  remove: string;
  removePath: string;
  key: string;
  value?: unknown;
  source: string;
  levels: Record<string, unknown>;
  isEditable: boolean;
}

/** The policies of a topic or a namespace, with where each value comes from. `base` is where they are set. */
export function Policies(props: { of: "topic" | "namespace"; from: string; base: string; mayEdit: boolean }) {
  const { value, problem, reload } = useGet<Policy[]>(props.from);
  const [edited, setEdited] = useState<Policy>();
  const [text, setText] = useState("");
  const [onlySet, setOnlySet] = useState(false);
  const rows = (value ?? []).filter((each) => !onlySet || each.source !== "broker");
  async function store(policy: Policy): Promise<void> {
    const path = `${props.base}/${policy.path}`;
    if (text.trim() !== "") {
      if (policy.inQuery) await call(policy.write, `${path}?${policy.path}=${encodeURIComponent(text.trim())}`);
      else await call(policy.write, path, JSON.parse(text) as unknown);
    } else if (policy.remove === "DELETE") await call("DELETE", `${props.base}/${policy.removePath}`);
    else await call(policy.write, path, null);
    reload();
  }
  return (
    <Card
      wide
      title="Policies, and where each value comes from"
      actions={
        <label class="check">
          <input type="checkbox" checked={onlySet} onChange={(event) => setOnlySet(event.currentTarget.checked)} /> only those that are set
        </label>
      }
    >
      {problem && <Note tone="bad">{problem}</Note>}
      <Table
        label="Policies"
        rows={rows}
        keyOf={(each) => each.name}
        empty={value ? "Everything is as the broker's configuration says." : "Loading…"}
        columns={[
          {
            name: "Policy",
            show: (each) => (
              <>
                <code class="key">{each.name}</code>
                <br />
                <small>{each.what}</small>
              </>
            ),
          },
          { name: "In force", show: (each) => <Value value={each.value} /> },
          { name: "From", show: (each) => <Badge tone={each.source.startsWith(props.of) ? "accent" : ""}>{each.source}</Badge> },
          {
            name: "Actions",
            show: (each) =>
              props.mayEdit &&
              each.isEditable && (
                <button
                  type="button"
                  class="small"
                  onClick={() => {
                    setEdited(each);
                    setText(each.value === undefined || each.value === null ? "" : JSON.stringify(each.value));
                  }}
                >
                  Edit <span class="hidden">{each.name}</span>
                </button>
              ),
          },
        ]}
      />
      {edited && (
        <Dialog title={`Edit ${edited.name}`} confirm={text.trim() === "" ? `Remove the ${props.of}'s own value` : `Set for this ${props.of}`} onClose={() => setEdited(undefined)} onConfirm={() => store(edited)}>
          <p>{edited.what}</p>
          <Field label={`Value for this ${props.of}`} hint={`JSON. Empty removes the ${props.of}'s own value.`}>
            {(id) => <textarea id={id} value={text} onInput={(event) => setText(event.currentTarget.value)} />}
          </Field>
          <h3>What each level says</h3>
          <Pairs pairs={Object.entries(edited.levels).map(([level, each]) => [level, <code key={level}>{JSON.stringify(each)}</code>])} />
          <Note>
            {props.of === "topic"
              ? "What will happen: the topic's own value comes before the namespace's and the broker's, and is in force at once."
              : "What will happen: it is in force at once for every topic of the namespace that has no value of its own; the broker's value comes after it."}
          </Note>
        </Dialog>
      )}
    </Card>
  );
}
