// SPDX-License-Identifier: Apache-2.0

package sim

// pollux names the measurements behind Models: nodes with 4 T4 GPUs and no
// NVLink, one 50 Gb/s NIC each, published with Pollux (OSDI 2021, Apache-2.0).
const pollux = "Pollux T4 measurements, "

// Models are the jobs that the simulator and the emulated jobs run, three of
// each class: communication-bound, in between, compute-bound. A "-large" model
// is the same network at a larger batch. The numbers are least-squares fits,
// see docs/design/speed-model.md; a test repeats them.
var Models = []Model{
	{Name: "bert", ComputeSeconds: 0.4405, Bytes: 3.190e+09, IntraSeconds: 0.108, Source: pollux + "bert batch 4"},
	{Name: "yolov3", ComputeSeconds: 0.3335, Bytes: 1.920e+09, IntraSeconds: 0.143, Source: pollux + "yolov3 batch 8"},
	{Name: "ncf", ComputeSeconds: 0.007501, Bytes: 4.371e+07, IntraSeconds: 0.00442, Source: pollux + "ncf batch 64"},

	{Name: "resnet18", ComputeSeconds: 0.1052, Bytes: 1.801e+08, IntraSeconds: 0.00486, Source: pollux + "cifar10 batch 129"},
	{Name: "resnet50", ComputeSeconds: 0.3228, Bytes: 2.642e+08, IntraSeconds: 0.00978, Source: pollux + "imagenet batch 57"},
	{Name: "deepspeech2", ComputeSeconds: 0.6978, Bytes: 9.248e+08, IntraSeconds: 0.111, Source: pollux + "deepspeech2 batch 20"},

	{Name: "resnet18-large", ComputeSeconds: 0.3647, Bytes: 9.016e+07, IntraSeconds: 0.0319, Source: pollux + "cifar10 batch 513"},
	{Name: "resnet50-large", ComputeSeconds: 0.7794, Bytes: 3.726e+07, IntraSeconds: 0.0347, Source: pollux + "imagenet batch 163"},
	{Name: "deepspeech2-large", ComputeSeconds: 1.680, Bytes: 4.459e+08, IntraSeconds: 0.0946, Source: pollux + "deepspeech2 batch 57"},
}
