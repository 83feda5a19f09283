// Compiles JSON Schemas with ajv in strict mode: node compile.mjs node_modules < schemas.json.
// It reads an object of schemas by name, and prints an object of errors by name.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const require = createRequire(join(process.argv[2], 'anything.js'))
const { default: Ajv } = require('ajv/dist/2020')
const { default: formats } = require('ajv-formats')

// Amounts are strings or numbers, so a type may be a list.
const ajv = new Ajv({ strict: true, allowUnionTypes: true, allErrors: true })
formats(ajv, ['date-time', 'uri', 'uuid'])

// The keywords and formats of Weft's own. Anything else unknown is an error.
ajv.addKeyword({ keyword: 'x-secret', schemaType: 'boolean' })
ajv.addKeyword({ keyword: 'x-literal', schemaType: ['boolean', 'string'] })
for (const format of [
  'age-identity', 'age-recipient', 'date-format', 'evm-address', 'evm-block', 'evm-hash', 'evm-private-key', 'evm-public-key', 'evm-uint256', 'evm-uint64',
  'hex-bytes', 'origin', 're2', 'time-zone', 'timestamp', 'value-path',
]) ajv.addFormat(format, true)

const errors = {}
for (const [name, schema] of Object.entries(JSON.parse(readFileSync(0, 'utf8')))) {
  try {
    const valid = ajv.compile(schema)
    for (const example of schema.examples ?? [])
      if (!valid(example)) errors[name] = `the example ${JSON.stringify(example)} is invalid: ${ajv.errorsText(valid.errors)}`
  } catch (error) {
    errors[name] = error.message
  }
}
console.log(JSON.stringify(errors))
