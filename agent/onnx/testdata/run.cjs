// SPDX-License-Identifier: Apache-2.0
//
// node run.cjs MODEL COLUMNS < doubles: scores a matrix with ONNX Runtime and
// writes one line with its name and version, then the scores as JSON.
const fs = require('fs')
const ort = require('onnxruntime-web')
ort.env.wasm.numThreads = 1
ort.env.logLevel = 'error'

async function main () {
  const [model, columns] = process.argv.slice(2)
  const bytes = fs.readFileSync(0)
  const data = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8)
  const session = await ort.InferenceSession.create(fs.readFileSync(model))
  const rows = data.length / Number(columns)
  const features = new ort.Tensor('float64', data, [rows, Number(columns)])
  const out = await session.run({ features })
  console.log('onnxruntime-web ' + ort.env.versions.web)
  console.log(JSON.stringify(Array.from(out.score.data)))
}

main().catch(err => {
  console.error(err)
  process.exit(1)
})
