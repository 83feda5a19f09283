import * as weft from './client'
import { client } from './client/client.gen'
import { must, tell } from './story'
import { baseUrl, transport } from './transport'

client.setConfig({ baseUrl, fetch: transport })

void tell({
  async modules() {
    const { data, error } = await weft.listSystemComponents()
    return must(data, error).map((component) => component.module)
  },
  async execute() {
    const { data, error } = await weft.executeComponent({ body: { module: 'RANDOM_UUID', input: {}, config: {} } })
    return must(data, error)
  },
  async execution(executionId) {
    const { data, error } = await weft.getComponentExecution({ path: { executionId } })
    return must(data, error)
  },
  async statuses(executionId) {
    const { stream } = await weft.streamComponentExecution({ path: { executionId } })
    const statuses: string[] = []
    for await (const event of stream) if (event) statuses.push(event.status) // a stream that is over is a 204, which is void
    return statuses
  },
  async saveWorkflow() {
    const { data, error } = await weft.createWorkflow({
      body: {
        name: 'hey-api',
        components: [{ id: 'start', module: 'ON_SCHEDULE', config: { cron: '0 0 1 1 *' } }, { id: 'draw', module: 'RANDOM_UUID' }],
        sequenceEdges: [{ id: 'first', from: 'start', to: 'draw' }],
      },
    })
    return must(data, error).id
  },
  async startRun(workflowId) {
    const { data, error } = await weft.triggerWorkflow({ path: { workflowId } })
    return must(data, error).runId
  },
  async run(runId) {
    const { data, error } = await weft.getWorkflowRun({ path: { runId } })
    return must(data, error)
  },
  async runs() {
    const { data, error } = await weft.listWorkflowRuns()
    return must(data, error).data.map((run) => run.id)
  },
  async createSchedule(workflowId) {
    const { data, error } = await weft.createSchedule({ body: { workflowId } })
    return must(data, error)
  },
  async missing(executionId) {
    const { error } = await weft.getComponentExecution({ path: { executionId } })
    return must(error).code
  },
})
