import { useState } from "preact/hooks";
import { Card, Json, Note, Pairs, Table } from "./ui";

/** Results of the Spark jobs, read from files that the reader chooses; they do not leave the browser. */
export function Reports() {
  const [found, setFound] = useState<{ name: string; value: unknown }[]>([]);
  const [problem, setProblem] = useState("");
  async function take(files: FileList | null): Promise<void> {
    setProblem("");
    const read: { name: string; value: unknown }[] = [];
    for (const file of files ?? []) {
      const text = await file.text();
      try {
        read.push({ name: file.name, value: parse(text) });
      } catch {
        setProblem(`${file.name} is neither JSON nor lines of JSON.`);
      }
    }
    setFound(read);
  }
  return (
    <>
      <div class="head">
        <h1>Reports</h1>
      </div>
      <Card title="What-if and order-audit results">
        <p>
          Choose the JSON files that <code>magnetar spark what-if</code> and <code>magnetar spark order-audit</code> wrote. They are read in this page and sent nowhere.
        </p>
        <div class="field">
          <label for="files">Files</label>
          <input id="files" type="file" multiple accept=".json,.jsonl,.ndjson" onChange={(event) => void take(event.currentTarget.files)} />
        </div>
        {problem && <Note tone="bad">{problem}</Note>}
      </Card>
      {found.map((file) => (
        <div key={file.name}>
          <p />
          <Card title={file.name}>
            <Report value={file.value} />
          </Card>
        </div>
      ))}
    </>
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text
      .split("\n")
      .filter((line) => line.trim())
      .map((line) => JSON.parse(line) as unknown);
  }
}

function isRow(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function show(value: unknown): string {
  if (typeof value === "number") return Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(4);
  return typeof value === "string" ? value : JSON.stringify(value);
}

function Report(props: { value: unknown }) {
  const { value } = props;
  if (Array.isArray(value) && value.length > 0 && value.every(isRow)) {
    const rows: Record<string, unknown>[] = value.slice(0, 1000);
    const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    return (
      <Table
        label="Rows"
        rows={rows}
        keyOf={(row) => JSON.stringify(row)}
        columns={names.map((name) => ({ name, isNumber: typeof rows[0][name] === "number", show: (row: Record<string, unknown>) => show(row[name]) }))}
      />
    );
  }
  if (isRow(value))
    return (
      <>
        <Pairs
          pairs={Object.entries(value)
            .filter(([, each]) => typeof each !== "object" || each === null)
            .map(([name, each]) => [name, show(each)])}
        />
        {Object.entries(value)
          .filter(([, each]) => typeof each === "object" && each !== null)
          .map(([name, each]) => (
            <div key={name}>
              <h3>{name}</h3>
              <Report value={each} />
            </div>
          ))}
      </>
    );
  return <Json value={value} />;
}
