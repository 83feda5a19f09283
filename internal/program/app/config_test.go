package app

import (
	"strings"
	"testing"
	"time"
)

const goodKey = "kFVXAOMxpTgbKrnUEDHQd0sJaltyyGTuDF2vW5y2x9M="

func TestOP08UnsafeConfigurationIsRejected(t *testing.T) {
	good := []string{"DATABASE_URL=postgres://x", "WEFT_MASTER_KEY=" + goodKey}
	for name, tc := range map[string]struct {
		environ []string
		want    string // part of the error; "": accepted
	}{
		"complete":                {good, ""},
		"no database":             {good[1:], "DATABASE_URL"},
		"no master key":           {good[:1], "WEFT_MASTER_KEY"},
		"short master key":        {[]string{good[0], "WEFT_MASTER_KEY=c2hvcnQ="}, "32"},
		"regular master key":      {[]string{good[0], "WEFT_MASTER_KEY=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}, "random"},
		"password of weft admin":  {append(good[:2:2], "WEFT_ADMIN_PASSWORD=x"), ""},
		"unknown option":          {append(good[:2:2], "WEFT_ADRESS=x"), "WEFT_ADRESS"},
		"bad network":             {append(good[:2:2], "WEFT_ALLOW_NETWORKS=10.0.0.0/99"), "WEFT_ALLOW_NETWORKS"},
		"retention too short":     {append(good[:2:2], "WEFT_RETENTION=23h"), "WEFT_RETENTION"},
		"zero retention":          {append(good[:2:2], "WEFT_RETENTION=0d"), "WEFT_RETENTION"},
		"retention malformed":     {append(good[:2:2], "WEFT_RETENTION=long"), "WEFT_RETENTION"},
		"leeway too long":         {append(good[:2:2], "WEFT_TIMESTAMP_LEEWAY=3s"), "WEFT_TIMESTAMP_LEEWAY"},
		"stop shorter than calls": {append(good[:2:2], "WEFT_STOP_TIMEOUT=30s"), "WEFT_COMPONENT_TIMEOUT"},
		"short stop and calls":    {append(good[:2:2], "WEFT_STOP_TIMEOUT=30s", "WEFT_COMPONENT_TIMEOUT=30s"), ""},
		"calls outlast a stop":    {append(good[:2:2], "WEFT_COMPONENT_TIMEOUT=3m"), "WEFT_STOP_TIMEOUT"},
		"negative drain delay":    {append(good[:2:2], "WEFT_DRAIN_DELAY=-1s"), "WEFT_DRAIN_DELAY"},
		"drain delay malformed":   {append(good[:2:2], "WEFT_DRAIN_DELAY=soon"), "WEFT_DRAIN_DELAY"},
		"no workers":              {append(good[:2:2], "WEFT_WORKERS=0"), "WEFT_WORKERS"},
		"bad schedule":            {append(good[:2:2], "WEFT_CALLBACK_SCHEDULE=5s,soon"), "WEFT_CALLBACK_SCHEDULE"},
		"missing CA file":         {append(good[:2:2], "WEFT_EGRESS_CA_FILE=/nowhere"), "WEFT_EGRESS_CA_FILE"},
	} {
		_, err := ConfigFromEnv(tc.environ)
		if tc.want == "" && err != nil {
			t.Errorf("%s: a valid configuration was rejected: %v", name, err)
		}
		if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got error %v, want one that names %s", name, err, tc.want)
		}
	}
}

func TestConfigurationErrorsAreReportedTogetherWithoutSecrets(t *testing.T) {
	_, err := ConfigFromEnv([]string{"WEFT_MASTER_KEY=not-a-key", "WEFT_NONSENSE=1", "WEFT_WORKERS=many"})
	if err == nil {
		t.Fatal("an invalid configuration was accepted")
	}
	for _, name := range []string{"DATABASE_URL", "WEFT_MASTER_KEY", "WEFT_NONSENSE", "WEFT_WORKERS"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
	_, err = ConfigFromEnv([]string{"DATABASE_URL=postgres://x", "WEFT_MASTER_KEY=" + goodKey, "WEFT_STOP_TIMEOUT=10"})
	if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), "WEFT_STOP_TIMEOUT: must be a duration") {
		t.Errorf("a malformed duration is reported with other errors: %v", err)
	}
}

func TestConfigurationErrorHidesSecrets(t *testing.T) {
	_, err := ConfigFromEnv([]string{"WEFT_MASTER_KEY=not-a-key"})
	if strings.Contains(err.Error(), "not-a-key") {
		t.Errorf("the error shows the key: %v", err)
	}
}

func TestSettingsAreReadFromTheEnvironment(t *testing.T) {
	cfg, err := ConfigFromEnv([]string{
		"DATABASE_URL=postgres://x", "WEFT_MASTER_KEY=" + goodKey, "WEFT_WORKERS=7", "WEFT_RETENTION=14d", "WEFT_TIMESTAMP_LEEWAY=1s",
		"WEFT_DRAIN_DELAY=0s", "WEFT_STOP_TIMEOUT=5m", "WEFT_COMPONENT_TIMEOUT=4m",
		"WEFT_CALLBACK_SCHEDULE=0s, 1s,2m", "WEFT_ALLOW_NETWORKS=127.0.0.0/8,10.1.2.3", "HOME=/x",
	})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Workers != 7 || cfg.TimestampLeeway != time.Second || cfg.Retention != 14*24*time.Hour || len(cfg.CallbackSchedule) != 3 || cfg.CallbackSchedule[2] != 2*time.Minute {
		t.Errorf("unexpected settings %+v", cfg)
	}
	if cfg.DrainDelay != 0 || cfg.StopTimeout != 5*time.Minute || cfg.ComponentTimeout != 4*time.Minute {
		t.Errorf("got drain delay %v, stop timeout %v, component timeout %v", cfg.DrainDelay, cfg.StopTimeout, cfg.ComponentTimeout)
	}
	if len(cfg.AllowNetworks) != 2 || cfg.AllowNetworks[1].String() != "10.1.2.3/32" {
		t.Errorf("unexpected networks %v", cfg.AllowNetworks)
	}
}

// On one machine, a worker must keep components away from the API and its metrics, and the API from
// the worker's.
func TestProcessesRefuseEachOthersListeners(t *testing.T) {
	for addresses, want := range map[[2]string]string{
		{"", ""}: "127.0.0.1:8080 127.0.0.1:9090 127.0.0.1:9091",
		{"WEFT_ADDR=:80", "WEFT_OPS_ADDR=[::]:81"}: ":80 [::]:81 127.0.0.1:9091",
	} {
		cfg, err := ConfigFromEnv(append([]string{"DATABASE_URL=postgres://x", "WEFT_MASTER_KEY=" + goodKey}, addresses[:]...))
		if got := strings.Join(cfg.OwnAddresses, " "); err != nil || got != want {
			t.Errorf("%q: egress refuses %s (%v), want %s", addresses, got, err, want)
		}
	}
}

func TestMailSettingsMustBeComplete(t *testing.T) {
	with := func(settings ...string) (Config, error) {
		return ConfigFromEnv(append([]string{"DATABASE_URL=postgres://x", "WEFT_MASTER_KEY=" + goodKey}, settings...))
	}
	const server, from, public = "WEFT_SMTP_URL=smtp://weft:s3cret@mail.example.org:587", "WEFT_SMTP_FROM=Weft <weft@example.org>", "WEFT_PUBLIC_URL=https://weft.example.org/"
	cfg, err := with(server, from, public)
	if err != nil || cfg.Mail == nil || cfg.PublicURL != "https://weft.example.org" {
		t.Errorf("got mail sender %v, public URL %q (%v)", cfg.Mail, cfg.PublicURL, err)
	}
	if cfg, err := with(); err != nil || cfg.Mail != nil {
		t.Errorf("without settings: %v, %v", cfg.Mail, err)
	}
	for missing, settings := range map[string][]string{
		"WEFT_PUBLIC_URL": {server, from}, "WEFT_SMTP_FROM": {server, public}, "WEFT_PUBLIC_URL: must have": {server, from, "WEFT_PUBLIC_URL=weft.example.org"},
		"smtp://": {"WEFT_SMTP_URL=mail://weft:s3cret@mail.example.org", from, public},
	} {
		if _, err := with(settings...); err == nil || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("without %s: got error %v", missing, err)
		}
	}
}
