// SPDX-License-Identifier: Apache-2.0

package gym

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"rifling/policy"
)

// request is one line from the agent.
type request struct {
	Cmd     string  `json:"cmd"` // spaces, reset, step or close
	Seed    uint64  `json:"seed"`
	Options Options `json:"options"`
	Action  *int    `json:"action"`
}

// spaces is the answer to the command of that name.
type spaces struct {
	JobFeatures    []string        `json:"job_features"`
	OptionFeatures []string        `json:"option_features"`
	Actions        []policy.Action `json:"actions"`
}

// mostLine bounds a request.
const mostLine = 1 << 16

// Serve answers requests, one JSON object a line, until the input ends or the
// agent says close. A request that cannot be answered gets {"error": ...} and
// changes nothing.
func Serve(in io.Reader, out io.Writer) error {
	var env Env
	defer env.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, mostLine)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		answer, err := handle(&env, lines.Bytes())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	return nil
}

func handle(env *Env, line []byte) (any, error) {
	var r request
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("no request: %w", err)
	}
	switch r.Cmd {
	case "spaces":
		return spaces{JobFeatures, OptionFeatures, policy.Actions}, nil
	case "reset":
		return env.Reset(r.Seed, r.Options)
	case "step":
		if r.Action == nil {
			return nil, errors.New("step without an action")
		}
		return env.Step(*r.Action)
	case "close":
		return nil, io.EOF
	}
	return nil, fmt.Errorf("there is no command %q; there are spaces, reset, step and close", r.Cmd)
}
