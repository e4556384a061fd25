// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"rifling/slurm"
)

// A file of the spool is its magic and then records: length of the content,
// CRC-32C of the rest of the record, number of samples, each four bytes, little
// endian, and the content, a JSON list of samples. A crash can only tear the
// last record; a record that does not fit its sum ends the file.
const (
	spoolMagic  = "RFLSPL01"
	recordHead  = 12
	maxRecord   = 64 << 20
	spoolSuffix = ".spool"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment is one file of the spool.
type segment struct {
	number  int
	path    string
	size    int64
	samples int
	file    *os.File // open for writing; nil: no more is added
}

// open takes the folder, once, and finds what an earlier collector left.
func (s *Spool) open() error {
	if s.lock != nil {
		return nil
	}
	fix := func(err error) error {
		return slurm.WithHint(fmt.Errorf("spool: %w", err), "%s must be a folder that only this collector writes to; samples wait in memory meanwhile", s.opts.Dir)
	}
	if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return fix(err)
	}
	lock, err := os.OpenFile(filepath.Join(s.opts.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fix(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fix(errors.Join(errSpoolTaken, lock.Close()))
	}
	names, err := filepath.Glob(filepath.Join(s.opts.Dir, "*"+spoolSuffix))
	if err != nil {
		return fix(errors.Join(err, lock.Close()))
	}
	for _, name := range names {
		number, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), spoolSuffix))
		if err != nil {
			continue // not ours
		}
		seg := &segment{number: number, path: name}
		if damaged := seg.check(); damaged {
			s.counts.Damaged++
		}
		if seg.samples == 0 {
			seg.remove()
			continue
		}
		s.segs = append(s.segs, seg)
	}
	slices.SortFunc(s.segs, func(a, b *segment) int { return a.number - b.number })
	s.lock = lock
	s.turn++
	s.bound()
	return nil
}

func createSegment(dir string, number int) (*segment, error) {
	seg := &segment{number: number, path: filepath.Join(dir, fmt.Sprintf("%010d%s", number, spoolSuffix))}
	f, err := os.OpenFile(seg.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(spoolMagic); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(seg.path))
	}
	seg.file, seg.size = f, int64(len(spoolMagic))
	return seg, nil
}

// append adds one record. What was written of one that failed is cut off; where
// that fails too, reading stops there.
func (g *segment) append(payload []byte, samples int) error {
	record := make([]byte, recordHead, recordHead+len(payload))
	binary.LittleEndian.PutUint32(record, uint32(len(payload)))
	binary.LittleEndian.PutUint32(record[8:], uint32(samples))
	record = append(record, payload...)
	binary.LittleEndian.PutUint32(record[4:], crc32.Checksum(record[8:], castagnoli))
	if _, err := g.file.Write(record); err != nil {
		if cut := g.file.Truncate(g.size); cut != nil {
			g.finish()
		}
		return err
	}
	g.size += int64(len(record))
	g.samples += samples
	return nil
}

// empty cuts the file down to its magic.
func (g *segment) empty() {
	g.samples = 0
	if g.file == nil || g.file.Truncate(int64(len(spoolMagic))) != nil {
		// It stays as it is until it goes: what is sent again does no harm.
		g.finish()
		return
	}
	g.size = int64(len(spoolMagic))
}

// finish ends writing: what is in the file shall outlive a power cut.
func (g *segment) finish() {
	if g.file != nil {
		_ = g.file.Sync() // the next collector cuts what was lost
		_ = g.file.Close()
		g.file = nil
	}
}

func (g *segment) remove() {
	g.finishQuick()
	_ = os.Remove(g.path) // if it stays, it is sent again, which does no harm
}

func (g *segment) finishQuick() {
	if g.file != nil {
		_ = g.file.Close() // it is about to go
		g.file = nil
	}
}

// records calls f for each sound record and returns how far they go, and
// whether something follows that is not one.
func (g *segment) records(f func(payload []byte, samples int)) (end int64, damaged bool) {
	b, err := os.ReadFile(g.path)
	if err != nil || !bytes.HasPrefix(b, []byte(spoolMagic)) {
		return 0, true
	}
	end = int64(len(spoolMagic))
	for rest := b[end:]; len(rest) > 0; {
		if len(rest) < recordHead {
			return end, true
		}
		n := int64(binary.LittleEndian.Uint32(rest))
		if n > maxRecord || n > int64(len(rest)-recordHead) {
			return end, true
		}
		record := rest[:recordHead+n]
		if crc32.Checksum(record[8:], castagnoli) != binary.LittleEndian.Uint32(record[4:]) {
			return end, true
		}
		f(record[recordHead:], int(binary.LittleEndian.Uint32(record[8:])))
		end += int64(len(record))
		rest = rest[len(record):]
	}
	return end, false
}

// check counts what a file of an earlier collector holds, and cuts off what it
// was writing when it ended. A file that is not of this kind is put aside.
func (g *segment) check() (damaged bool) {
	g.size, damaged = g.records(func(_ []byte, samples int) { g.samples += samples })
	switch {
	case damaged && g.size == 0:
		_ = os.Rename(g.path, g.path+".damaged") // if not, it is removed
	case damaged:
		_ = os.Truncate(g.path, g.size) // if not, reading ends there all the same
	}
	return damaged
}

// read returns the samples of a file.
func (g *segment) read() (out []Sample, damaged bool) {
	_, torn := g.records(func(payload []byte, _ int) {
		var samples []Sample
		if err := json.Unmarshal(payload, &samples); err != nil {
			damaged = true
			return
		}
		out = append(out, samples...)
	})
	g.samples = len(out)
	return out, damaged || torn
}
