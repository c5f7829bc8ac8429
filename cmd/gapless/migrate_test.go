package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless/internal/migrate"
	"github.com/gapless-io/gapless/internal/store/etcd"
)

// migrateOptions returns what the flags of gapless migrate say.
func migrateOptions(t *testing.T, args ...string) (migrate.Options, error) {
	t.Helper()
	var f migrateFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(flags)
	if err := flags.Parse(args); err != nil {
		return migrate.Options{}, err
	}
	got, err := f.options(t.Context(), flags)
	got.Encryption.Check, got.Encryption.ServerID = nil, ""
	return got, err
}

func TestAMigrationIsWhatItsFlagsSay(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want migrate.Options
	}{
		"into etcd": {
			[]string{"--from=./data", "--to=http://a:1,http://b:2"},
			migrate.Options{
				Dir: "./data", Cluster: etcd.Cluster{Servers: []string{"http://a:1", "http://b:2"}}, Prefix: "/registry",
				EventTTL: time.Hour,
			},
		},
		"from etcd": {
			[]string{
				"--from=https://a:1", "--to=./data", "--etcd-cafile=ca", "--etcd-certfile=crt", "--etcd-keyfile=key",
				"--etcd-prefix=p//q/", "--encryption-provider-config=enc.yaml", "--event-ttl=2h", "--exclude=x/,y/",
				"--bump-revision=7",
			},
			func() migrate.Options {
				o := migrate.Options{
					Dir: "./data", Prefix: "/p/q", EventTTL: 2 * time.Hour, Without: []string{"x/", "y/"}, Bump: 7,
					Cluster: etcd.Cluster{Servers: []string{"https://a:1"}, CAFile: "ca", CertFile: "crt", KeyFile: "key"},
				}
				o.Encryption.File = "enc.yaml"
				return o
			}(),
		},
		"Events for ever": {
			[]string{"--from=./data", "--to=http://a:1", "--event-ttl=0"},
			migrate.Options{Dir: "./data", Cluster: etcd.Cluster{Servers: []string{"http://a:1"}}, Prefix: "/registry"},
		},
	} {
		got, err := migrateOptions(t, c.args...)
		if err != nil {
			t.Fatalf("%s: read the flags: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestAMigrationIsBetweenADirectoryAndEtcd(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "give --from and --to"},
		{[]string{"--from=a"}, "give --from and --to"},
		{[]string{"--from=a", "--to=b"}, "both directories"},
		{[]string{"--from=http://a:1", "--to=http://b:1"}, "both etcd"},
		{[]string{"--from=a", "--to=http://"}, "want a URL"},
		{[]string{"--from=a", "--to=http://a:1", "--etcd-cafile=ca"}, "use https"},
		{[]string{"--from=a", "--to=https://a:1", "--etcd-certfile=crt"}, "needs both"},
		{[]string{"--from=a", "--to=http://a:1", "--event-ttl=10ms"}, "--event-ttl"},
		{[]string{"--from=a", "--to=http://a:1", "--event-ttl=-1h"}, "--event-ttl"},
		{[]string{"--from=a", "--to=http://a:1", "--exclude=x"}, "--exclude are for migrations from etcd"},
		{[]string{"--from=a", "--to=http://a:1", "--exclude="}, "--exclude are for migrations from etcd"},
		{[]string{"--from=http://a:1", "--to=b", "--exclude="}, "empty element"},
		{[]string{"--from=http://a:1", "--to=b", "--exclude=x/,"}, "empty element"},
		{[]string{"--from=http://a:1", "--to=b", "--exclude=/registry/x/"}, "after the prefix /registry/"},
		{[]string{"--from=http://a:1", "--to=b", "--reuse-resource-versions"}, "for migrations into etcd"},
		{[]string{"--from=a", "--to=http://a:1", "--bump-revision=1"}, "--bump-revision and"},
		{[]string{"--from=http://a:1", "--to=b", "--bump-revision=0"}, "--bump-revision 0"},
		{[]string{"--from=a", "--to=http://a:1", "--etcd-servers-overrides=/events#http://b:1"}, oneCluster},
		{[]string{"--from=a", "--to=http://a:1", "more"}, "takes no arguments"},
	} {
		code, _, stderr := command(t, append([]string{"migrate"}, c.args...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, code, exitUsage, c.want, stderr)
		}
	}
}

// oneCluster is why a migration refuses --etcd-servers-overrides.
const oneCluster = "one cluster is moved, and what other clusters have stays there; stop using them first, or leave their " +
	"resources out with --exclude"

// TestAMigrationRefusesTheOverridesOfTheServersToo: where the environment of the servers says what they are.
func TestAMigrationRefusesTheOverridesOfTheServersToo(t *testing.T) {
	t.Setenv("GAPLESS_ETCD_SERVERS_OVERRIDES", "/events#http://b:1")
	code, _, stderr := command(t, "migrate", "--from=a", "--to=http://a:1")
	if code != exitUsage || !strings.Contains(stderr, oneCluster) {
		t.Errorf("exit code %d, want %d and why:\n%s", code, exitUsage, stderr)
	}
}

// TestAMigrationRefusesADirectoryInUse: and one of no server. Neither needs etcd.
func TestAMigrationRefusesADirectoryInUse(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const nobody = "http://127.0.0.1:1"
	dir := filepath.Join(t.TempDir(), "data")
	serveDir(t, dir, func(func(method, path, body string) string) {
		if code, _, stderr := command(t, "migrate", "--from", dir, "--to", nobody); code != exitRunTime ||
			!strings.Contains(stderr, "a server is running on "+dir) {
			t.Errorf("the directory of a server that runs: exit code %d\n%s", code, stderr)
		}
	})
	if code, _, stderr := command(t, "migrate", "--from", t.TempDir(), "--to", nobody); code != exitRunTime ||
		!strings.Contains(stderr, "is not the data directory") {
		t.Errorf("an empty directory: exit code %d\n%s", code, stderr)
	}
}

func TestThePlanOfAMigrationNamesWhatIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		plan migrate.Plan
		want []string
		not  string
	}{
		{
			migrate.Plan{Objects: 5, LeftOut: []string{"/registry/ranges/x"}, LeftOutCount: 1},
			[]string{"all 5 objects", "left out: /registry/ranges/x"},
			"more",
		},
		{
			migrate.Plan{Objects: 5, Begun: 3, LeftOut: []string{"/registry/ranges/x"}, LeftOutCount: 8},
			[]string{"left out: 7 more", "3 are in etcd already"},
			"warning",
		},
	} {
		var err strings.Builder
		showPlan(streams{err: &err}, c.plan)
		missing := func(text string) bool { return !strings.Contains(err.String(), text) }
		if slices.ContainsFunc(c.want, missing) || !missing(c.not) {
			t.Errorf("%+v: %q, want %q and not %q", c.plan, err.String(), c.want, c.not)
		}
	}
}

func TestResourceVersionsAreGivenOutAgainOnlyIfThatIsWanted(t *testing.T) {
	for name, c := range map[string]struct {
		plan   migrate.Plan
		reuse  bool
		refuse string
	}{
		"etcd is there":    {migrate.Plan{Directory: 100, Etcd: 100}, false, ""},
		"etcd is below":    {migrate.Plan{Directory: 1000, Etcd: 100}, false, "--bump-revision 1000900 "},
		"it is wanted":     {migrate.Plan{Directory: 1000, Etcd: 100}, true, ""},
		"it goes on":       {migrate.Plan{Directory: 1000, Etcd: 100, Begun: 1}, false, ""},
		"into a directory": {migrate.Plan{Etcd: 100}, false, ""},
	} {
		f := migrateFlags{reuse: c.reuse}
		var text strings.Builder
		err := f.accept(streams{err: &text}, c.plan)
		if (err == nil) != (c.refuse == "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
			t.Errorf("%s: %v, want %q", name, err, c.refuse)
		}
		if warned := strings.Contains(text.String(), "from 100 to 1000 again"); warned != c.reuse {
			t.Errorf("%s: a warning: %t, want %t: %s", name, warned, c.reuse, text.String())
		}
	}
}
