import createClient from 'openapi-fetch'
import type { paths } from './client/api'
import { must, tell } from './story'
import { baseUrl, transport } from './transport'

const weft = createClient<paths>({ baseUrl, fetch: transport })

void tell({
  async modules() {
    const { data, error } = await weft.GET('/v1/system/components')
    return must(data, error).map((component) => component.module)
  },
  async execute() {
    const { data, error } = await weft.POST('/v1/sdk/components', { body: { module: 'RANDOM_UUID', input: {}, config: {} } })
    return must(data, error)
  },
  async execution(executionId) {
    const { data, error } = await weft.GET('/v1/sdk/components/executions/{executionId}', { params: { path: { executionId } } })
    return must(data, error)
  },
  async statuses(executionId) {
    const { data, error } = await weft.GET('/v1/sdk/components/executions/{executionId}/stream', { params: { path: { executionId } }, parseAs: 'text' })
    return [...must(data, error).matchAll(/^data: (.*)$/gm)].map(([, event]) => (JSON.parse(event ?? '') as { status: string }).status)
  },
  async saveWorkflow() {
    const { data, error } = await weft.POST('/v1/sdk/workflows', {
      body: {
        name: 'openapi-typescript',
        components: [{ id: 'start', module: 'ON_SCHEDULE', config: { cron: '0 0 1 1 *' } }, { id: 'draw', module: 'RANDOM_UUID' }],
        sequenceEdges: [{ id: 'first', from: 'start', to: 'draw' }],
      },
    })
    return must(data, error).id
  },
  async startRun(workflowId) {
    const { data, error } = await weft.POST('/v1/sdk/workflows/{workflowId}', { params: { path: { workflowId } } })
    return must(data, error).runId
  },
  async run(runId) {
    const { data, error } = await weft.GET('/v1/sdk/workflows/executions/{runId}', { params: { path: { runId } } })
    return must(data, error)
  },
  async runs() {
    const { data, error } = await weft.GET('/v1/sdk/workflows/executions')
    return must(data, error).data.map((run) => run.id)
  },
  async createSchedule(workflowId) {
    const { data, error } = await weft.POST('/v1/sdk/schedules', { body: { workflowId } })
    return must(data, error)
  },
  async missing(executionId) {
    const { error } = await weft.GET('/v1/sdk/components/executions/{executionId}', { params: { path: { executionId } } })
    return must(error).code
  },
})
