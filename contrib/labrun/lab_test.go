// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseFields(t *testing.T) {
	tests := []struct {
		name   string
		record string
		want   Fields
	}{
		{
			"values with their own equal signs, commas and units stay whole",
			"JobId=12 JobName=train JobState=PENDING TRES=cpu=4,mem=100M,gres/gpu=4 ExcNodeList=gpu[01-03] Nice=-5",
			Fields{"JobId": "12", "JobName": "train", "JobState": "PENDING", "TRES": "cpu=4,mem=100M,gres/gpu=4", "ExcNodeList": "gpu[01-03]", "Nice": "-5"},
		},
		{
			"a name and a comment may hold blanks",
			"JobId=7 JobName=my long run Comment=keep away please Command=/home/alice/a b.sh",
			Fields{"JobId": "7", "JobName": "my long run", "Comment": "keep away please", "Command": "/home/alice/a b.sh"},
		},
		{
			"empty values and keys with colons",
			"NodeName=gpu01 Comment= CPU_IDs=0-3 NtasksPerN:B:S:C=0:0:*:*",
			Fields{"NodeName": "gpu01", "Comment": "", "CPU_IDs": "0-3", "NtasksPerN:B:S:C": "0:0:*:*"},
		},
		{
			"the job's own field is not hidden by the details of its nodes",
			"JobId=3 MinMemoryNode=0 Nodes=gpu01 Mem=0 Nodes=gpu02 Mem=1",
			Fields{"JobId": "3", "MinMemoryNode": "0", "Nodes": "gpu01", "Mem": "0"},
		},
		{"nothing", "", Fields{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ParseFields(tt.record)); diff != "" {
				t.Errorf("ParseFields (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseFields(f *testing.F) {
	f.Add("JobId=12 JobName=a b TRES=cpu=4")
	f.Add("A=B=C D=")
	f.Fuzz(func(t *testing.T, record string) {
		for k, v := range ParseFields(record) {
			if !strings.Contains(record, k+"=") || !strings.Contains(record, v) {
				t.Errorf("%q=%q is not in %q", k, v, record)
			}
		}
	})
}

const goodEnv = `LAB_NAME=x
LAB_RELEASE=24.11
LAB_CLUSTER=lab_x
LAB_ROOT=/r
LAB_NODES=4
LAB_GPUS=8
LAB_SPEED=40
LAB_REST_URL=http://127.0.0.1:20009
LAB_REST_SOCKET=/r/s.sock
LAB_TOKEN_FILE=/t
LAB_JWT_USER=rifling
LAB_TOPOLOGY=/r/topology.conf
LAB_EMU=/r/emu
LAB_FREE_PORT=20020
LAB_OTHER=kept out
`

func TestParseEnv(t *testing.T) {
	got, err := parseEnv("/repo", strings.NewReader(goodEnv))
	if err != nil {
		t.Fatal(err)
	}
	want := &Lab{
		Name: "x", Release: "24.11", Cluster: "lab_x", Nodes: 4, GPUs: 8, Speed: 40, Root: "/r", EmuDir: "/r/emu",
		Topology: "/r/topology.conf", RESTURL: "http://127.0.0.1:20009", RESTSocket: "/r/s.sock",
		TokenFile: "/t", JWTUser: "rifling", FreePort: 20020,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Lab{})); diff != "" {
		t.Errorf("lab (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"gpu01", "gpu02", "gpu03", "gpu04"}, got.NodeNames()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestParseEnvSaysWhatIsMissing(t *testing.T) {
	for _, key := range []string{"LAB_NODES", "LAB_FREE_PORT", "LAB_ROOT", "LAB_REST_URL"} {
		text := strings.Replace(goodEnv, key+"=", "X=", 1)
		if _, err := parseEnv("/repo", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("without %s: err = %v, want one that names it", key, err)
		}
	}
}

// fakeRepo is a repository whose lab.sh is the given shell text.
func fakeRepo(t *testing.T, sh string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "contrib", "lab"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "contrib", "lab", "lab.sh"), []byte("#!/bin/sh\n"+sh), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RIFLING_REPO", dir)
	return dir
}

func TestStartTellsWhyThereIsNoLab(t *testing.T) {
	tests := []struct {
		name string
		sh   string
		want error
		says string
	}{
		{"the mirror lacks the release", "echo 'lab: debootstrap failed' >&2; exit 75", ErrSkip, "debootstrap failed"},
		{"not root", "echo 'lab: needs root' >&2; exit 77", ErrNeedsRoot, "needs root"},
		{"not Debian", "echo 'lab: no apt-get here' >&2; exit 69", ErrHost, "no apt-get"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fakeRepo(t, tt.sh)
			var log strings.Builder
			_, err := Start(context.Background(), Options{Log: &log})
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("err = %v, want %v with %q", err, tt.want, tt.says)
			}
			if !strings.Contains(log.String(), tt.says) {
				t.Errorf("the log lacks lab.sh's words: %q", log.String())
			}
		})
	}
}

func TestStartAndUseLab(t *testing.T) {
	fakeRepo(t, `
case $1 in
up) [ "$SLURM $LAB $NODES $GPUS $(cat "$LAB_CONF")" = "24.11 x 4 8 FirstJobId=7" ] || exit 1 ;;
env) cat <<'E'
`+goodEnv+`E
;;
as) shift; echo "$LAB:$*:$(cat)" ;;
exec) echo "root:$*"; echo oops >&2; exit 3 ;;
esac`)
	ctx := context.Background()
	l, err := Start(ctx, Options{Release: "24.11", Name: "x", Nodes: 4, GPUs: 8, Conf: "FirstJobId=7\n", Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	id, err := l.Sbatch(ctx, "alice", "#!/bin/sh\n", "-t5")
	if err != nil || id != "x:alice sbatch --parsable -t5:#!/bin/sh" {
		t.Errorf("Sbatch = %q, %v", id, err)
	}
	if _, err := l.Exec(ctx, "false"); err == nil || !strings.Contains(err.Error(), "oops") {
		t.Errorf("Exec: err = %v, want one with the command's words", err)
	}
}
