// SPDX-License-Identifier: Apache-2.0

package policy

// Learned is the policy that both places and orders by a trained model.
type Learned struct {
	Model Model
}

// Decide plans by the model.
func (l *Learned) Decide(in Input) Plan {
	p := l.Model.Rule.Decide(in)
	p.Policy = "learned"
	return p
}
