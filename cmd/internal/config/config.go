// SPDX-License-Identifier: Apache-2.0

// Package config reads rifling's configuration: YAML, then RIFLING_* from the
// environment, then flags, each over the one before. A key that is not known is
// an error, since a misspelled limit is no limit.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"rifling/agent"
	"rifling/profile"
	"rifling/slurm"
)

// DefaultPath is where a site keeps its configuration.
const DefaultPath = "/etc/rifling/rifling.yaml"

// Modes of operation.
const (
	ModeObserve = "observe"
	ModeSteer   = "steer"
)

// Config is all that the programs can be told. etc/rifling.yaml documents each key.
type Config struct {
	Slurm      Slurm         `mapstructure:"slurm"`
	Database   string        `mapstructure:"database"`
	Mode       string        `mapstructure:"mode"`
	Steer      Scope         `mapstructure:"steer"`
	Policy     string        `mapstructure:"policy"`
	Order      string        `mapstructure:"order"`
	Seed       uint64        `mapstructure:"seed"`
	UsersSee   string        `mapstructure:"users-see"`
	Interval   time.Duration `mapstructure:"interval"`
	Retention  time.Duration `mapstructure:"retention"`
	Manage     Manage        `mapstructure:"manage"`
	Limits     Limits        `mapstructure:"limits"`
	Brakes     Brakes        `mapstructure:"brakes"`
	Profile    Profile       `mapstructure:"profile"`
	Agent      Agent         `mapstructure:"agent"`
	Listen     Listen        `mapstructure:"listen"`
	Prometheus Prometheus    `mapstructure:"prometheus"`
	Samples    Samples       `mapstructure:"samples"`
	History    History       `mapstructure:"history"`
	Log        Log           `mapstructure:"log"`
}

// Slurm says how slurmrestd is reached.
type Slurm struct {
	URL          string        `mapstructure:"url"`
	User         string        `mapstructure:"user"`
	TokenFile    string        `mapstructure:"token-file"`
	CAFile       string        `mapstructure:"ca-file"`
	TopologyFile string        `mapstructure:"topology-file"`
	Timeout      time.Duration `mapstructure:"timeout"`
	RESTVersion  int           `mapstructure:"rest-version"`
}

// Scope narrows steering; what it leaves out is observed. Empty lists mean all.
type Scope struct {
	Partitions []string `mapstructure:"partitions"`
	Accounts   []string `mapstructure:"accounts"`
	QOS        []string `mapstructure:"qos"`
}

// Manage says which jobs are rifling's business at all.
type Manage struct {
	Partitions   []string `mapstructure:"partitions"`
	SkipUsers    []string `mapstructure:"skip-users"`
	SkipAccounts []string `mapstructure:"skip-accounts"`
	SkipQOS      []string `mapstructure:"skip-qos"`
	OptOut       string   `mapstructure:"opt-out"`

	SkipPartitions  []string `mapstructure:"skip-partitions"`
	SkipConstraints []string `mapstructure:"skip-constraints"`
}

// Limits are the guard rails.
type Limits struct {
	Depth      int           `mapstructure:"depth"`
	SlackNodes int           `mapstructure:"slack-nodes"`
	MaxOffset  int64         `mapstructure:"max-offset"`
	MaxWait    time.Duration `mapstructure:"max-wait"`
	MaxChanges int           `mapstructure:"max-changes"`
	TTL        time.Duration `mapstructure:"ttl"`
	Starvation time.Duration `mapstructure:"starvation"`
	Grace      time.Duration `mapstructure:"grace"`
	ExactNodes []string      `mapstructure:"exact-nodes"`

	MaxOvertake int64   `mapstructure:"max-overtake"`
	PerSecond   float64 `mapstructure:"updates-per-second"`
}

// Profile is how jobs are profiled and grouped.
type Profile struct {
	Groups            int           `mapstructure:"groups"`
	RegroupEvery      time.Duration `mapstructure:"regroup-every"`
	MinSamples        int           `mapstructure:"min-samples"`
	CommBoundBelow    float64       `mapstructure:"comm-bound-below"`
	ComputeBoundAbove float64       `mapstructure:"compute-bound-above"`
	NetGbit           float64       `mapstructure:"net-gbit"`
	RateWindow        time.Duration `mapstructure:"rate-window"`
	HalfLife          time.Duration `mapstructure:"half-life"`
}

// Agent holds the hyper-parameters of the Q-learning of the policy "rifling".
type Agent struct {
	Alpha        float64       `mapstructure:"alpha"`
	Tau          time.Duration `mapstructure:"tau"`
	Epsilon      float64       `mapstructure:"epsilon"`
	EpsilonMin   float64       `mapstructure:"epsilon-min"`
	EpsilonDecay float64       `mapstructure:"epsilon-decay"`
	Margin       float64       `mapstructure:"margin"`
	Prior        string        `mapstructure:"prior"`
	PriorWeight  float64       `mapstructure:"prior-weight"`
}

// Listen is where riflingd takes counters and shows its own state.
type Listen struct {
	Address    string `mapstructure:"address"`
	SecretFile string `mapstructure:"secret-file"`
	CertFile   string `mapstructure:"cert-file"`
	KeyFile    string `mapstructure:"key-file"`
	Page       string `mapstructure:"page"`
	BasePath   string `mapstructure:"base-path"`
}

// Of whose jobs the command rifling tells plain users.
const (
	SeeOwn = "own"
	SeeAll = "all"
)

// Who may read the status page.
const (
	PageOff      = "off"
	PageLoopback = "loopback" // from the daemon's own machine only
	PageOn       = "on"       // whoever reaches listen.address
)

// Samples is how long counters are kept in which detail.
type Samples struct {
	Raw         time.Duration `mapstructure:"raw"`
	FiveMinutes time.Duration `mapstructure:"five-minutes"`
	MaxRows     int64         `mapstructure:"max-rows"`
}

// History is what becomes of the accounting that `rifling history import` read.
type History struct {
	Learn     time.Duration `mapstructure:"learn"`
	Retention time.Duration `mapstructure:"retention"`
}

// Log is how riflingd writes its log.
type Log struct {
	Level  string `mapstructure:"level"`
	Format string `mapstructure:"format"`
}

// Default returns the configuration of a site that sets nothing: it observes.
func Default() Config {
	learn, prof := agent.DefaultParams(), profile.DefaultOptions()
	return Config{
		Slurm: Slurm{
			URL:          "unix:///run/rifling/slurmrestd.sock",
			User:         "rifling",
			TopologyFile: "/etc/slurm/topology.conf",
			Timeout:      30 * time.Second,
		},
		Database:  "/var/lib/rifling/rifling.db",
		Mode:      ModeObserve,
		Policy:    "rifling",
		Order:     "fcfs",
		Seed:      1,
		UsersSee:  SeeOwn,
		Interval:  15 * time.Second,
		Retention: 90 * 24 * time.Hour,
		Manage:    Manage{OptOut: "rifling=off"},
		Limits: Limits{
			Depth: 50, SlackNodes: 1, MaxOffset: 1000, MaxWait: 2 * time.Hour,
			MaxChanges: 20, TTL: 10 * time.Minute, Starvation: 7 * 24 * time.Hour, PerSecond: 10,
		},
		Brakes: defaultBrakes(),
		Profile: Profile{
			Groups: prof.Groups, RegroupEvery: prof.RegroupEvery, MinSamples: prof.MinSamples,
			CommBoundBelow: prof.CommBoundBelow, ComputeBoundAbove: prof.ComputeBoundAbove,
			NetGbit: prof.SpreadNetSpeed * 8 / 1e9, RateWindow: prof.RateWindow, HalfLife: prof.HalfLife,
		},
		Agent: Agent{
			Alpha: learn.Alpha, Tau: learn.Tau, Epsilon: learn.Epsilon, EpsilonMin: learn.EpsilonMin,
			EpsilonDecay: learn.EpsilonDecay, Margin: learn.Margin, Prior: "rule", PriorWeight: 3,
		},
		Listen:     Listen{Address: "127.0.0.1:6830", Page: PageLoopback},
		Prometheus: defaultPrometheus(),
		Samples:    Samples{Raw: 48 * time.Hour, FiveMinutes: 30 * 24 * time.Hour, MaxRows: 3_000_000},
		History:    History{Learn: 90 * 24 * time.Hour, Retention: 400 * 24 * time.Hour},
		Log:        Log{Level: "info", Format: "text"},
	}
}

// Load reads the file at path (DefaultPath when empty; that one may be
// missing), then RIFLING_* variables (RIFLING_SLURM_TOKEN_FILE sets
// slurm.token-file), then those flags whose names are keys.
func Load(path string, flags *pflag.FlagSet) (*Config, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	keys := setDefaults(v, reflect.ValueOf(Default()), "")
	v.SetEnvPrefix("RIFLING")
	v.SetEnvKeyReplacer(strings.NewReplacer(".", "_", "-", "_"))
	v.AutomaticEnv()
	if err := readFile(v, path); err != nil {
		return nil, err
	}
	if flags != nil {
		for _, k := range keys {
			if f := flags.Lookup(k); f != nil && f.Changed {
				v.Set(k, f.Value.String())
			}
		}
	}
	var c Config
	err := v.Unmarshal(&c, func(d *mapstructure.DecoderConfig) { d.ErrorUnused = true })
	if err != nil {
		return nil, slurm.WithHint(fmt.Errorf("read configuration %s: %w", shown(path), plain(err)),
			"etc/rifling.yaml in the source lists every key with its meaning")
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", shown(path), err)
	}
	return &c, nil
}

func shown(path string) string {
	if path == "" {
		return DefaultPath
	}
	return path
}

func readFile(v *viper.Viper, path string) error {
	f, err := os.Open(shown(path))
	if errors.Is(err, fs.ErrNotExist) && path == "" {
		return nil
	}
	if err != nil {
		return slurm.WithHint(fmt.Errorf("open configuration: %w", err),
			"give the file with --config, or make it readable for this user")
	}
	defer f.Close()
	if err := v.ReadConfig(f); err != nil {
		return slurm.WithHint(fmt.Errorf("read configuration %s: %w", path, err),
			"the file is YAML: check indentation near the line that is named")
	}
	return nil
}

// setDefaults registers every leaf of the struct with viper, so that
// environment variables are seen, and returns the keys.
func setDefaults(v *viper.Viper, s reflect.Value, prefix string) []string {
	var keys []string
	for i := range s.NumField() {
		key := prefix + s.Type().Field(i).Tag.Get("mapstructure")
		if f := s.Field(i); f.Kind() == reflect.Struct {
			keys = append(keys, setDefaults(v, f, key+".")...)
		} else {
			v.SetDefault(key, f.Interface())
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}

// plain drops mapstructure's own heading, which names no file and no key.
func plain(err error) error {
	s := err.Error()
	if _, rest, ok := strings.Cut(s, "has invalid keys: "); ok {
		return errors.New("unknown key: " + strings.TrimSpace(rest))
	}
	return err
}
