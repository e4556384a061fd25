// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Why a lab cannot be had here. Start wraps one of these.
var (
	// ErrSkip says that this machine or its package mirror does not offer the
	// release: a test skips, saying so.
	ErrSkip = errors.New("release not available here")
	// ErrNeedsRoot says that the lab needs root for its chroot and mounts.
	ErrNeedsRoot = errors.New("the lab needs root")
	// ErrHost says that the machine lacks what the lab stands on.
	ErrHost = errors.New("this machine cannot hold a lab")
)

// Exit codes of lab.sh that mean more than failure.
const (
	exitHost = 69
	exitSkip = 75
	exitRoot = 77
)

// Options says which lab to bring up. Zero values leave the choice to lab.sh:
// release 22.05, 8 nodes with 8 GPUs, real time, named after its release.
type Options struct {
	Release string // "22.05", "24.11", "26.05"
	Nodes   int
	GPUs    int // per node
	Speed   int // how many times faster than time
	Name    string
	Conf    string    // lines added to slurm.conf
	Log     io.Writer // what lab.sh says while it works; nil discards it
}

// Lab is a running lab.
type Lab struct {
	Name     string
	Release  string
	Cluster  string
	Nodes    int
	GPUs     int // per node
	Speed    int
	Root     string // the lab's root directory
	EmuDir   string // where the emulated jobs publish their counters
	Topology string // path of its topology.conf

	RESTURL    string // slurmrestd on TCP, JWT
	RESTSocket string // slurmrestd on a unix socket, rest_auth/local
	TokenFile  string
	JWTUser    string
	FreePort   int // first of 20 ports that the lab leaves free

	repo string
}

// Start brings a lab up, or takes it over when it is up already. On an error
// that is not final (see ErrSkip and the others) lab.sh's last words are in
// the error and all of them went to o.Log.
func Start(ctx context.Context, o Options) (*Lab, error) {
	repo, err := Repo()
	if err != nil {
		return nil, err
	}
	o.Release = cmp.Or(o.Release, "22.05")
	name := cmp.Or(o.Name, o.Release)
	env := []string{"SLURM=" + o.Release, "LAB=" + name}
	for _, kv := range []struct {
		key string
		n   int
	}{{"NODES", o.Nodes}, {"GPUS", o.GPUs}, {"SPEED", o.Speed}} {
		if kv.n > 0 {
			env = append(env, kv.key+"="+strconv.Itoa(kv.n))
		}
	}
	if o.Conf != "" {
		file, err := tempFile("slurm-conf-", o.Conf)
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(file) }()
		env = append(env, "LAB_CONF="+file)
	}
	if _, err := labSh(ctx, repo, env, nil, o.Log, "up"); err != nil {
		return nil, fmt.Errorf("bring up lab %s: %w", name, err)
	}
	text, err := labSh(ctx, repo, env, nil, nil, "env")
	if err != nil {
		return nil, fmt.Errorf("read the keys of lab %s: %w", name, err)
	}
	return parseEnv(repo, strings.NewReader(text))
}

// tempFile writes a file of its own and returns its path.
func tempFile(prefix, text string) (string, error) {
	f, err := os.CreateTemp("", prefix)
	if err != nil {
		return "", err
	}
	if _, err := f.WriteString(text); err != nil {
		return "", errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f.Name(), f.Close()
}

// FromEnv takes over the running lab whose lab.env lies at path.
func FromEnv(path string) (*Lab, error) {
	repo, err := Repo()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseEnv(repo, f)
}

// parseEnv reads KEY=VALUE lines.
func parseEnv(repo string, r io.Reader) (*Lab, error) {
	kv := map[string]string{}
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		if k, v, ok := strings.Cut(strings.TrimSpace(sc.Text()), "="); ok && !strings.HasPrefix(k, "#") {
			kv[k] = v
		}
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	l := &Lab{
		Name:       kv["LAB_NAME"],
		Release:    kv["LAB_RELEASE"],
		Cluster:    kv["LAB_CLUSTER"],
		Root:       kv["LAB_ROOT"],
		EmuDir:     kv["LAB_EMU"],
		Topology:   kv["LAB_TOPOLOGY"],
		RESTURL:    kv["LAB_REST_URL"],
		RESTSocket: kv["LAB_REST_SOCKET"],
		TokenFile:  kv["LAB_TOKEN_FILE"],
		JWTUser:    kv["LAB_JWT_USER"],
		repo:       repo,
	}
	for key, dst := range map[string]*int{
		"LAB_NODES": &l.Nodes, "LAB_GPUS": &l.GPUs, "LAB_SPEED": &l.Speed, "LAB_FREE_PORT": &l.FreePort,
	} {
		n, err := strconv.Atoi(kv[key])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("lab.env: %s=%q is not a positive number", key, kv[key])
		}
		*dst = n
	}
	for key, v := range map[string]string{"LAB_NAME": l.Name, "LAB_RELEASE": l.Release, "LAB_ROOT": l.Root, "LAB_REST_URL": l.RESTURL} {
		if v == "" {
			return nil, fmt.Errorf("lab.env: %s is missing", key)
		}
	}
	return l, nil
}

// Remove takes down the lab of that name, or what is left of one; a lab that
// does not exist is no error.
func Remove(ctx context.Context, name string) error {
	repo, err := Repo()
	if err != nil {
		return err
	}
	if _, err := labSh(ctx, repo, []string{"LAB=" + name}, nil, nil, "down"); err != nil {
		return fmt.Errorf("remove lab %s: %w", name, err)
	}
	return nil
}

// Down stops the lab and leaves nothing of it behind but the package cache.
func (l *Lab) Down(ctx context.Context) error {
	_, err := l.Verb(ctx, "down")
	return err
}

// Verb runs a verb of lab.sh on this lab: "stop-rest", "restart-ctld", ….
func (l *Lab) Verb(ctx context.Context, verb string, args ...string) (string, error) {
	return labSh(ctx, l.repo, l.env(), nil, nil, append([]string{verb}, args...)...)
}

// Exec runs a command inside the lab as root and returns its standard output.
func (l *Lab) Exec(ctx context.Context, args ...string) (string, error) {
	return l.Verb(ctx, "exec", args...)
}

// As runs a command inside the lab as one of its users.
func (l *Lab) As(ctx context.Context, user string, args ...string) (string, error) {
	return l.Verb(ctx, "as", append([]string{user}, args...)...)
}

// asStdin is As with text for the command's standard input.
func (l *Lab) asStdin(ctx context.Context, user, stdin string, args ...string) (string, error) {
	return labSh(ctx, l.repo, l.env(), strings.NewReader(stdin), nil, append([]string{"as", user}, args...)...)
}

func (l *Lab) env() []string { return []string{"SLURM=" + l.Release, "LAB=" + l.Name} }

// Bin returns the path of one of the project's built programs: below
// $RIFLING_BIN where that is set, else below bin/.
func (l *Lab) Bin(name string) string {
	return filepath.Join(cmp.Or(os.Getenv("RIFLING_BIN"), filepath.Join(l.repo, "bin")), name)
}

// NodeNames returns the lab's nodes in order: gpu01, gpu02, ….
func (l *Lab) NodeNames() []string {
	width := max(2, len(strconv.Itoa(l.Nodes)))
	names := make([]string, l.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("gpu%0*d", width, i+1)
	}
	return names
}

// Repo returns the repository's root: $RIFLING_REPO, or the nearest folder
// above the working directory that holds contrib/lab/lab.sh.
func Repo() (string, error) {
	if dir := os.Getenv("RIFLING_REPO"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "contrib", "lab", "lab.sh")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside rifling's repository: change into it, or set RIFLING_REPO")
		}
	}
}

// labSh runs lab.sh; what it says on standard error goes to log as well.
func labSh(ctx context.Context, repo string, env []string, stdin io.Reader, log io.Writer, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(repo, "contrib", "lab", "lab.sh"), args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if log != nil {
		cmd.Stderr = io.MultiWriter(&stderr, log)
	}
	err := cmd.Run()
	if err == nil {
		return strings.TrimRight(stdout.String(), "\n"), nil
	}
	if ctx.Err() != nil {
		return stdout.String(), ctx.Err()
	}
	return stdout.String(), commandError(err, stderr.String(), args)
}

// commandError turns an exit status and the last words of a command into an
// error that says what went wrong.
func commandError(err error, stderr string, args []string) error {
	words := lastLines(stderr, 3)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		switch exit.ExitCode() {
		case exitSkip:
			return fmt.Errorf("%w: %s", ErrSkip, words)
		case exitRoot:
			return fmt.Errorf("%w: %s", ErrNeedsRoot, words)
		case exitHost:
			return fmt.Errorf("%w: %s", ErrHost, words)
		}
	}
	return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, words)
}

// lastLines returns the last n lines that are not blank, joined by "; ".
func lastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
