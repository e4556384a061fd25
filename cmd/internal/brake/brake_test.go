// SPDX-License-Identifier: Apache-2.0

package brake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestReadAndWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pause")
	if p := Read(path, noon); p != nil {
		t.Fatalf("no file, and paused: %+v", p)
	}
	until := noon.Add(time.Hour)
	if err := Write(path, Pause{By: "root", Why: "maintenance", At: noon, Until: &until}); err != nil {
		t.Fatal(err)
	}
	if p := Read(path, until.Add(-time.Second)); p == nil || p.Why != "maintenance" || p.By != "root" {
		t.Errorf("read %+v", p)
	}
	if p := Read(path, until); p != nil {
		t.Errorf("its time is over, and still paused: %+v", p)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	if was, err := Remove(path); !was || err != nil {
		t.Errorf("removed %t, error %v", was, err)
	}
	if was, err := Remove(path); was || err != nil {
		t.Errorf("removed again %t, error %v", was, err)
	}
}

// Whatever lies there: it pauses.
func TestAnythingAtThePathPauses(t *testing.T) {
	for name, text := range map[string]string{
		"touched": "", "a word": "stop!", "half of an object": `{"by":"root","unt`, "zeros": "\x00\x00",
		"a huge file": strings.Repeat("x", 3*most), "another type": `{"until":"tomorrow"}`,
	} {
		path := filepath.Join(t.TempDir(), "pause")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p := Read(path, noon); p == nil || !strings.Contains(p.Why, path) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	dir := t.TempDir()
	if p := Read(dir, noon); p == nil {
		t.Error("a directory: not paused")
	}
}

func TestWriteNeedsItsDirectory(t *testing.T) {
	if err := Write(filepath.Join(t.TempDir(), "none", "pause"), Pause{}); err == nil {
		t.Error("no error")
	}
}
