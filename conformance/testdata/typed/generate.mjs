// Makes a typed client in TypeScript of the array that GET /v1/system/components gives:
// node generate.mjs components.json client.ts. What it knows of the service is that array.
import { readFileSync, writeFileSync } from 'node:fs'

const [from, to] = process.argv.slice(2)
const components = JSON.parse(readFileSync(from, 'utf8'))

const pascal = (module) => module.split('_').map((word) => word[0] + word.slice(1).toLowerCase()).join('')
const camel = (module) => pascal(module).replace(/^./, (first) => first.toLowerCase())
const comment = (text) => `/** ${text.replaceAll('*/', '* /')} */`

const type = (schema) => kind(schema) + (schema.nullable && !schema.enum ? ' | null' : '')

function kind(schema) {
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  switch (schema.type) {
    case 'string': case 'number': case 'bigint': case 'boolean': return schema.type
    case 'array': return `readonly (${type(schema.items ?? {})})[]`
    case 'object': return schema.properties ? members(schema.properties, schema.required ?? []) : 'Readonly<Record<string, unknown>>'
    case undefined: return 'unknown'
  }
  throw new Error(`a type beyond the dialect: ${schema.type}`)
}

const members = (properties, required) => '{ ' + Object.entries(properties)
  .map(([name, schema]) => `readonly ${JSON.stringify(name)}${required.includes(name) ? '' : '?'}: ${type(schema)}`)
  .concat('').join('; ') + '}'

const required = (list) => list.filter((one) => one.required).map((one) => one.name)
const byName = (list) => Object.fromEntries(list.map(({ name, schema, required, jsonSchema }) => [name, required || !jsonSchema ? schema : optional(jsonSchema)]))

// The schema of an optional input is {} for generators that know no `required`; jsonSchema has its type.
function optional(schema) {
  if (schema.enum) return { enum: schema.enum }
  const type = schema.type === 'integer' ? 'number' : schema.type
  return ['string', 'number', 'boolean'].includes(type) ? { type } : {}
}
const lines = [`
export type Execute = (module: string, input: unknown, config: unknown) => Promise<unknown>

interface Schema {
  readonly type?: string; readonly nullable?: boolean; readonly enum?: readonly unknown[]; readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>; readonly required?: readonly string[]
}

// A bigint travels as a decimal string.
function write(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (Array.isArray(value)) return value.map(write)
  if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, write(one)]))
  return value
}

function read(schema: Schema, value: unknown): unknown {
  if (schema.type === 'bigint' && (typeof value === 'string' || typeof value === 'number')) return BigInt(value)
  const items = schema.items, properties = schema.properties
  if (items && Array.isArray(value)) return value.map((one) => read(items, one))
  if (properties && typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, read(properties[name] ?? {}, one)]))
  return value
}
`]
const methods = []
for (const { name, module, executionModes, inputs, outputs, configs } of components) {
  const own = pascal(module), given = byName(inputs.parameters), gives = byName(outputs.response)
  lines.push(comment(name), `export type ${own}Input = ${members(given, required(inputs.parameters))}`)
  lines.push(`export type ${own}Config = ${members(configs.properties, configs.required)}`)
  lines.push(`export type ${own}Output = ${members(gives, required(outputs.response))}`)
  if (!executionModes.includes('COMPONENT')) continue
  const config = configs.required.length > 0 ? `config: ${own}Config` : `config: ${own}Config = {}`
  methods.push(`  ${comment(name)}
  async ${camel(module)}(input: ${own}Input, ${config}): Promise<${own}Output> {
    return read(${JSON.stringify({ type: 'object', properties: gives })}, await this.execute(${JSON.stringify(module)}, write(input), write(config))) as ${own}Output
  }`)
}
lines.push('export class Weft {', '  constructor(private readonly execute: Execute) {}', ...methods, '}', '')
writeFileSync(to, lines.join('\n'))
