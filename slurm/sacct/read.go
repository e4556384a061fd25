// SPDX-License-Identifier: Apache-2.0

package sacct

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"rifling/slurm"
)

const (
	// maxRow bounds what is kept of one row; what a longer one has behind that
	// is the end of a command.
	maxRow = 64 << 10
	// maxCached bounds each table of strings that were read before.
	maxCached = 20_000
)

// Format says how sacct's output is written. The zero value will do for a file
// with a header.
type Format struct {
	// Delimiter between the fields; "" takes what the header shows.
	Delimiter string
	// Location of dates that name no zone; nil means time.Local.
	Location *time.Location
}

// Read reads what sacct --parsable2 (or --parsable) wrote, header included,
// and gives each run to the sink. Rows may be broken over lines by names and
// commands that hold line breaks. One odd row costs only itself. It fails when
// the header cannot be read, the input breaks off or the sink refuses.
func Read(in io.Reader, f Format, sink slurm.PastSink) error {
	p := newParser(f, sink)
	lines := bufio.NewReaderSize(in, 256<<10)
	for {
		line, cut, err := readLine(lines)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read accounting: %w", err)
		}
		p.line++
		if cut {
			sink.Odd("row longer than 64 KiB, its end cut off", at(p.line, string(line[:40])))
		}
		if err := p.take(line); err != nil {
			return err
		}
	}
	if p.layout == nil {
		return slurm.WithHint(errors.New("there is nothing to read, not even a header"), "%s", dumpHint())
	}
	if err := p.flushRow(); err != nil {
		return err
	}
	return p.flushRun()
}

// readLine returns the next line without its end; it is valid until the next
// call. Of a line longer than maxRow the rest is skipped.
func readLine(in *bufio.Reader) (line []byte, cut bool, err error) {
	line, err = in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line[:maxRow])
		cut = true
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	if len(line) > maxRow {
		line, cut = line[:maxRow], true
	}
	return line, cut, err
}

// parser is the state of one reading.
type parser struct {
	sink     slurm.PastSink
	want     string // delimiter asked for
	location *time.Location
	layout   *layout

	line   int    // number of the line at hand
	text   []byte // the row at hand, as far as it was seen
	begun  int    // the line on which it began
	broken int    // lines that it goes over beyond the first

	row     row
	current *slurm.PastJob // whose steps may follow
	steps   []slurm.StepUsage

	states map[string]slurm.State
	sets   map[string]slurm.TRES
	hosts  map[string][]string
}

func newParser(f Format, sink slurm.PastSink) *parser {
	p := &parser{
		sink: sink, want: f.Delimiter, location: f.Location,
		states: map[string]slurm.State{}, sets: map[string]slurm.TRES{}, hosts: map[string][]string{},
	}
	if p.location == nil {
		p.location = time.Local
	}
	p.row.note = func(reason, detail string) { sink.Odd(reason, at(p.begun, detail)) }
	return p
}

// take takes one line: the header, the first of a row, or more of it.
func (p *parser) take(line []byte) error {
	if p.layout == nil {
		l, err := parseHeader(strings.TrimRight(string(line), "\r"), p.want)
		p.layout, p.row.layout = l, l
		return err
	}
	switch {
	case string(line) == p.layout.header: // of the next file, when several were joined
		return p.flushRow()
	case !p.begins(line):
		if p.text == nil && len(bytes.TrimSpace(line)) > 0 {
			p.sink.Odd(oddFew, at(p.line, string(line[:min(len(line), 80)])))
		}
		if p.text != nil && len(p.text)+len(line) < maxRow {
			p.text = append(append(p.text, '\n'), line...)
		}
		p.broken++
		return nil
	}
	err := p.flushRow()
	p.text, p.begun, p.broken = append([]byte{}, line...), p.line, 0
	return err
}

// begins reports whether a row begins here. Only free text can hold a line
// break, and only where it stands last can what follows be told from a row: one
// begins with a job id, and has all its fixed fields unless it was cut off. While
// the row before still lacks fields, a short line is more of it.
func (p *parser) begins(line []byte) bool {
	l := p.layout
	if !l.tail || l.fixed == l.width || l.place[colRaw] != 0 {
		return len(bytes.TrimSpace(line)) > 0
	}
	i := bytes.Index(line, []byte(l.delimiter))
	if i < 1 {
		return false
	}
	for _, c := range line[:i] {
		if (c < '0' || c > '9') && c != '.' && c != '+' && (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	if line[0] < '0' || line[0] > '9' {
		return false
	}
	d := []byte(l.delimiter)
	whole := p.text == nil || bytes.Count(p.text, d) >= l.width-1
	return whole || bytes.Count(line, d) >= l.fixed
}

// flushRow reads the row that is complete now.
func (p *parser) flushRow() error {
	if p.text == nil {
		return nil
	}
	text := string(bytes.TrimRight(p.text, "\r\n"))
	p.text = nil
	if odd := p.row.split(text); odd != "" {
		p.sink.Odd(odd, at(p.begun, text))
		return nil
	}
	if raw, step, ok := strings.Cut(p.row.get(colRaw), "."); ok {
		if p.current == nil || fmt.Sprint(p.current.ID) != raw {
			p.sink.Odd(oddStep, at(p.begun, text))
			return nil
		}
		p.step(&p.row, step)
		return nil
	}
	if err := p.flushRun(); err != nil {
		return err
	}
	run, odd := p.run(&p.row)
	if odd != "" {
		p.sink.Odd(odd, at(p.begun, text))
		return nil
	}
	p.current = run
	return nil
}

// flushRun hands on the run whose rows are all read.
func (p *parser) flushRun() error {
	if p.current == nil {
		return nil
	}
	j := p.current
	if len(p.steps) > 0 {
		j.SetGPUUsage(p.steps)
	}
	p.current, p.steps = nil, p.steps[:0]
	return p.sink.Run(j)
}
