package gapless_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/seam"
)

func TestOptionsOfEtcdThatCannotBeAreRefused(t *testing.T) {
	servers := []string{"http://127.0.0.1:2379"}
	for name, c := range map[string]struct {
		change func(*gapless.Config)
		want   string
	}{
		"no URL":         {func(c *gapless.Config) { c.Etcd.Servers = []string{"127.0.0.1:2379"} }, "want a URL"},
		"another scheme": {func(c *gapless.Config) { c.Etcd.Servers = []string{"ftp://a:1"} }, "want a URL"},
		"a path":         {func(c *gapless.Config) { c.Etcd.Servers = []string{"http://a:1/b"} }, "want a URL"},
		"an override of one of the servers": {func(c *gapless.Config) {
			c.Etcd.Overrides = []gapless.EtcdOverride{{Resource: "events", Servers: servers}}
		}, "leave the override out"},
		"a server in two clusters": {func(c *gapless.Config) {
			c.Etcd.Overrides = []gapless.EtcdOverride{
				{Resource: "events", Servers: []string{"http://a:1", "http://b:1"}},
				{Resource: "pods", Servers: []string{"http://a:1"}},
			}
		}, "name the same ones"},
		"an override without a URL": {func(c *gapless.Config) {
			c.Etcd.Overrides = []gapless.EtcdOverride{{Resource: "events", Servers: []string{"a:1"}}}
		}, "want a URL"},
		"an override of nothing": {func(c *gapless.Config) {
			c.Etcd.Overrides = []gapless.EtcdOverride{{Servers: []string{"http://a:1"}}}
		}, "want a resource"},
		"overrides alone": {func(c *gapless.Config) {
			c.Etcd = gapless.Etcd{Overrides: []gapless.EtcdOverride{{Resource: "events", Servers: servers}}}
		}, "without its servers"},
		"no servers": {func(c *gapless.Config) { c.Etcd = gapless.Etcd{Prefix: "/a"} }, "without its servers"},
		"a certificate without its key": {func(c *gapless.Config) {
			c.Etcd = gapless.Etcd{Servers: []string{"https://a:1"}, CertFile: "c"}
		}, "both CertFile and KeyFile"},
		"a certificate without TLS": {func(c *gapless.Config) { c.Etcd.CAFile = "ca" }, "use https"},
		"a negative timeout":        {func(c *gapless.Config) { c.Etcd.ReadycheckTimeout = -time.Second }, "cannot be negative"},
		"memory":                    {func(c *gapless.Config) { c.Memory = true }, "--memory"},
		"a first resource version":  {func(c *gapless.Config) { c.ResourceVersionBase = 7 }, "--resource-version-base"},
		"no sync":                   {func(c *gapless.Config) { seam.Of(c).UnsafeNoFsync = true }, "--unsafe-no-fsync"},
		"reload of keys": {func(c *gapless.Config) {
			c.EncryptionProviderConfig, c.EncryptionProviderConfigAutomaticReload = "f", true
		}, "not possible yet"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := gapless.Config{DataDir: t.TempDir(), Etcd: gapless.Etcd{Servers: servers}}
			c.change(&cfg)
			if _, err := gapless.New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("configure the server: %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestAStartOverEtcdThatFailsLeavesNoFiles: without asking etcd.
func TestAStartOverEtcdThatFailsLeavesNoFiles(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	https, http := []string{"https://127.0.0.1:1"}, []string{"http://127.0.0.1:1"}
	for name, c := range map[string]struct {
		etcd gapless.Etcd
		want string
	}{
		"no CA":           {gapless.Etcd{Servers: https, CAFile: filepath.Join(t.TempDir(), "none")}, "no such file"},
		"a broken CA":     {gapless.Etcd{Servers: https, CAFile: bad}, "no PEM certificate"},
		"gapless's own":   {gapless.Etcd{Servers: http, Prefix: "/gapless"}, "choose another"},
		"no client's key": {gapless.Etcd{Servers: https, CertFile: bad, KeyFile: bad}, "client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			cfg := gapless.Config{DataDir: filepath.Join(root, "data"), Listen: "127.0.0.1:0", Etcd: c.etcd}
			if err := tryRun(t, cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run the server: %v, want an error with %q", err, c.want)
			}
			if left := contents(t, root); len(left) != 1 {
				t.Errorf("the start has left %v", left)
			}
		})
	}
}
