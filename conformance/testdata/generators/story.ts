// What each program does with its generated client. A program implements Client with required
// members only, so that the compiler finds what a document makes required by mistake.

export interface Execution { readonly id: string; readonly status: string; readonly output?: unknown }
export interface Run { readonly id: string; readonly status: string; readonly totalUsage: number }

export interface Client {
  modules(): Promise<readonly string[]>
  execute(): Promise<Execution>
  execution(id: string): Promise<Execution>
  /** The statuses of the stream of an execution, if the generated client reads streams. */
  statuses?(id: string): Promise<readonly string[]>
  saveWorkflow(): Promise<string>
  startRun(workflowId: string): Promise<string>
  run(id: string): Promise<Run>
  runs(): Promise<readonly string[]>
  createSchedule(workflowId: string): Promise<{ readonly id: string; readonly cron: string }>
  /** The code of the answer to an execution that does not exist, if the client shows it. */
  missing?(id: string): Promise<string>
}

const terminal = ['COMPLETED', 'FAILED', 'CANCELED']

// When to stop waiting for a record, in milliseconds since 1970.
const deadline = Number(process.env.WEFT_DEADLINE)

async function finished<T extends { readonly status: string }>(read: () => Promise<T>): Promise<T> {
  for (;;) {
    const record = await read()
    if (terminal.includes(record.status)) return record
    if (!(Date.now() < deadline)) throw new Error(`not finished by WEFT_DEADLINE: ${JSON.stringify(record)}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** Runs the story and prints what came of it. */
export async function tell(client: Client): Promise<void> {
  const modules = await client.modules()
  const accepted = await client.execute()
  const statuses = await client.statuses?.(accepted.id)
  const execution = await finished(() => client.execution(accepted.id))
  const workflow = await client.saveWorkflow()
  const runId = await client.startRun(workflow)
  const run = await finished(() => client.run(runId))
  const listed = (await client.runs()).includes(runId)
  const { id, cron } = await client.createSchedule(workflow)
  const missing = await client.missing?.('01890000-0000-7000-8000-000000000000')
  console.log(JSON.stringify({ modules, execution, statuses, workflow, run, listed, schedule: { id, cron }, missing }))
}

/** The value, or an error that shows what came instead. */
export function must<T>(value: T | undefined, error?: unknown): T {
  if (value === undefined) throw new Error(JSON.stringify(error))
  return value
}
