// SPDX-License-Identifier: Apache-2.0

// Command labtrace runs a list of jobs on a real slurmctld in the lab, faster
// than time, and writes what it did: one CSV row a job, and the slurm.conf that
// it did it under. The simulator is judged by such recordings. rifling takes no
// part in them.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rifling/contrib/labrun"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "labtrace:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	release string
	seed    uint64
	speed   int
	out     string
	debug   string
	list    listOptions
}

func run(ctx context.Context, args []string, log io.Writer) error {
	var o options
	fs := flag.NewFlagSet("labtrace", flag.ContinueOnError)
	fs.StringVar(&o.release, "release", "22.05", "Slurm release: 22.05, 24.11 or 26.05")
	fs.Uint64Var(&o.seed, "seed", 1, "of the list")
	fs.IntVar(&o.speed, "speed", 40, "Slurm's seconds per real second")
	fs.StringVar(&o.out, "out", ".", "folder for the recording, NAME.csv and NAME.conf")
	fs.IntVar(&o.list.jobs, "jobs", 320, "jobs in the list")
	fs.IntVar(&o.list.nodes, "nodes", 8, "emulated nodes")
	fs.IntVar(&o.list.gpus, "gpus", 8, "GPUs per node")
	fs.Float64Var(&o.list.load, "load", 1.1, "GPU time that arrives over GPU time there is")
	fs.DurationVar(&o.list.mean, "mean", 10*time.Minute, "mean run time")
	fs.BoolVar(&o.list.partitions, "partitions", false, "two partitions")
	fs.Float64Var(&o.list.open, "open", 0, "part of the jobs that leave the number of nodes open (--gpus)")
	fs.StringVar(&o.debug, "debug", "", "DebugFlags of slurmctld, e.g. Backfill; its log is then kept as NAME.log")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return record(ctx, o, log)
}

// scheduler is what the recordings are made under: a backfill pass that looks
// at the whole queue, at the interval that is Slurm's default, and priorities
// that age. Fair share is off: a user's rank is a step function, and where two
// users are near each other no two runs of one list are alike.
const scheduler = "PriorityWeightFairshare=0\nPriorityWeightAge=100000\n" +
	"SchedulerParameters=bf_interval=30,bf_window=20160,bf_resolution=60,bf_max_job_test=1000," +
	"default_queue_depth=1000,bf_continue,batch_sched_delay=3,sched_min_interval=2000000\n"

func record(ctx context.Context, o options, log io.Writer) (err error) {
	name, settings := "trace-"+o.release, scheduler
	if o.debug != "" {
		settings += "DebugFlags=" + o.debug + "\n"
	}
	lab, err := labrun.Start(ctx, labrun.Options{
		Release: o.release, Nodes: o.list.nodes, GPUs: o.list.gpus, Speed: o.speed, Name: name, Conf: settings, Log: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Down(context.WithoutCancel(ctx))) }()
	jobs := makeList(o.seed, o.list)
	ids, err := submit(ctx, lab, jobs)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "%d jobs submitted\n", len(ids))
	var zero int
	rows, err := labrun.Wait(ctx, "the jobs' ends", func(ctx context.Context) (rows [][]string, err error) {
		rows, zero, err = ended(ctx, lab, jobs, ids)
		return rows, err
	}, func(rows [][]string) bool { return rows != nil })
	if err != nil {
		return err
	}
	conf, err := lab.Exec(ctx, "cat", "/lab/etc/slurm.conf")
	if err != nil {
		return err
	}
	kind := "one-partition"
	if o.list.partitions {
		kind = "two-partitions"
	}
	if o.list.open > 0 {
		kind += "-open"
	}
	base := filepath.Join(o.out, fmt.Sprintf("%s_%s_seed%d_%dx%d", o.release, kind, o.seed, o.list.nodes, o.list.gpus))
	// slurmctld rounds times by the wall clock.
	conf += fmt.Sprintf("\n# The recording's second 0 was %d by slurmctld's clock.\n", zero)
	if err := os.WriteFile(base+".conf", []byte(conf), 0o644); err != nil {
		return err
	}
	if o.debug != "" {
		said, err := os.ReadFile(filepath.Join(lab.Root, "lab", "log", "slurmctld.log"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(base+".log", said, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(log, "written to %s.csv\n", base)
	return writeRows(base+".csv", rows)
}

// submit runs one shell inside the lab that submits each job at its time by
// Slurm's clock, as its user.
func submit(ctx context.Context, lab *labrun.Lab, jobs []job) ([]string, error) {
	var script strings.Builder
	script.WriteString(`start=$(date +%s)
sub() {
	left=$((start + $1 - $(date +%s))); user=$2; shift 2
	if [ "$left" -gt 0 ]; then sleep "$left"; fi
	setpriv --reuid "$user" --regid "$user" --init-groups -- sbatch --parsable --output=/dev/null --chdir=/tmp "$@"
}
`)
	for _, j := range jobs {
		fmt.Fprintf(&script, "sub %d %s %s --wrap='exec sleep %d'\n", int(j.submit.Seconds()), j.user.Name,
			strings.Join(j.request(lab.GPUs), " "), int(j.duration.Seconds()))
	}
	path := filepath.Join(lab.Root, "tmp", "submit.sh")
	if err := os.WriteFile(path, []byte(script.String()), 0o600); err != nil {
		return nil, err
	}
	out, err := lab.Exec(ctx, "bash", "/tmp/submit.sh")
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	ids := strings.Fields(out)
	if len(ids) != len(jobs) {
		return nil, fmt.Errorf("submitted %d jobs and got %d ids", len(jobs), len(ids))
	}
	return ids, nil
}

// columns are those of the recordings that came first, and what priority needs.
var columns = []string{"job", "gpus", "duration", "limit", "submit_requested", "submit_real", "start_real", "end_real",
	"nodes", "by_backfill", "state", "user", "account", "partition", "nice", "open"}

// ended returns the rows once all jobs have ended, nil before. Times count from
// zero, in seconds since the epoch, which the first job's submission decides.
func ended(ctx context.Context, lab *labrun.Lab, jobs []job, ids []string) (rows [][]string, zero int, err error) {
	left, err := lab.Exec(ctx, "squeue", "-h", "-t", "PENDING,RUNNING,COMPLETING,CONFIGURING", "-o", "%A")
	if err != nil || strings.TrimSpace(left) != "" {
		return nil, 0, err
	}
	out, err := lab.Exec(ctx, "env", "SLURM_TIME_FORMAT=%s", "sacct", "-nXP", "-j", strings.Join(ids, ","),
		"-o", "JobIDRaw,State,Submit,Start,End,NodeList,Flags")
	if err != nil {
		return nil, 0, err
	}
	byID := map[string][]string{}
	for line := range strings.Lines(out) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 7 {
			byID[f[0]] = f
		}
	}
	rows = make([][]string, 0, len(jobs))
	for i, j := range jobs {
		f := byID[ids[i]]
		if f == nil {
			return nil, 0, fmt.Errorf("sacct does not list job %s yet", ids[i])
		}
		times := make([]int, 3)
		for k := range times {
			if times[k], err = strconv.Atoi(f[2+k]); err != nil {
				return nil, 0, fmt.Errorf("job %s: time %q", ids[i], f[2+k])
			}
		}
		if i == 0 {
			zero = times[0] - int(j.submit.Seconds())
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), strconv.Itoa(j.gpus), seconds(j.duration), seconds(j.limit), seconds(j.submit),
			strconv.Itoa(times[0] - zero), strconv.Itoa(times[1] - zero), strconv.Itoa(times[2] - zero), f[5],
			flag01(strings.Contains(f[6], "SchedBackfill")), f[1], j.user.Name, j.user.Account, j.partition, strconv.Itoa(j.nice), flag01(j.open)})
	}
	return rows, zero, nil
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

func flag01(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func writeRows(path string, rows [][]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	err = errors.Join(w.Write(columns), w.WriteAll(rows))
	return errors.Join(err, f.Close())
}
