package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestABackupIsOfWhatTheCommandLineNames: a server or a directory, whatever the environment says.
func TestABackupIsOfWhatTheCommandLineNames(t *testing.T) {
	dir := t.TempDir() // of no server
	none := filepath.Join(dir, "no-such-config")
	const ofServer, ofDirectory = "no-such-config", "is not the data directory of a gapless server"
	for _, c := range []struct {
		environment, args []string
		code              int
		want              []string // in the message
	}{
		{nil, []string{"--data-dir", dir, "--kubeconfig", none}, exitUsage, []string{"--data-dir", "--kubeconfig", "leave out"}},
		{nil, []string{"--data-dir", dir, "--server", "x"}, exitUsage, []string{"--data-dir", "--server"}},
		{nil, []string{"--data-dir", dir, "--context", "x"}, exitUsage, []string{"--data-dir", "--context"}},
		{[]string{"GAPLESS_DATA_DIR=" + dir}, []string{"--kubeconfig", none}, exitRunTime, []string{ofServer}},
		{
			[]string{"GAPLESS_DATA_DIR=" + dir, "GAPLESS_SERVER=x"},
			[]string{"--kubeconfig", none},
			exitRunTime,
			[]string{ofServer},
		},
		{
			[]string{"GAPLESS_DATA_DIR=" + dir, "GAPLESS_KUBECONFIG=" + none},
			[]string{"--context", "x"},
			exitRunTime,
			[]string{ofServer},
		},
		{
			[]string{"GAPLESS_DATA_DIR=" + dir, "GAPLESS_CONTEXT=x"},
			nil, exitUsage,
			[]string{"the variable GAPLESS_DATA_DIR", "the variable GAPLESS_CONTEXT"},
		},
		{[]string{"GAPLESS_KUBECONFIG=" + none}, []string{"--data-dir", dir}, exitRunTime, []string{ofDirectory}},
		{[]string{"KUBECONFIG=" + none}, []string{"--data-dir", dir}, exitRunTime, []string{ofDirectory}},
		{[]string{"GAPLESS_DATA_DIR=" + dir}, nil, exitRunTime, []string{ofDirectory}},
	} {
		t.Run(fmt.Sprint(c.environment, c.args), func(t *testing.T) {
			for _, variable := range c.environment {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			code, _, stderr := command(t, append([]string{"backup", filepath.Join(dir, "a.backup")}, c.args...)...)
			missing := func(text string) bool { return !strings.Contains(stderr, text) }
			if code != c.code || slices.ContainsFunc(c.want, missing) {
				t.Errorf("exit code %d, want %d and a message with %q:\n%s", code, c.code, c.want, stderr)
			}
		})
	}
}

// TestABackupOfAReplicaIsRefusedWithWhatToDo: as the server itself does.
func TestABackupOfAReplicaIsRefusedWithWhatToDo(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "replica"), 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	code, _, stderr := command(t, "backup", filepath.Join(dir, "a.backup"), "--data-dir", dir)
	if code != exitRunTime || !strings.Contains(stderr, "in etcd: back that up, with etcdctl snapshot save") {
		t.Errorf("exit code %d, want %d and a message that names etcd's snapshot:\n%s", code, exitRunTime, stderr)
	}
}

// TestAVariableHasOneTypeInAllCommands: flags of the same name share it.
func TestAVariableHasOneTypeInAllCommands(t *testing.T) {
	types := map[string]string{} // "type, in command" by variable
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, is := f.Value.(*refused); is || f.Annotations[withoutVariable] != nil {
				return
			}
			name, kind := envName(f.Name), f.Value.Type()
			if kind == "stringArray" {
				kind = "string" // which a variable gives it
			}
			other, known := types[name]
			if its, _, _ := strings.Cut(other, ","); known && its != kind {
				t.Errorf("%s is a %s in %s, and a %s", name, kind, cmd.Name(), other)
			}
			types[name] = kind + ", in " + cmd.Name()
		})
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(newRoot(streams{}))
	if types["GAPLESS_HISTORY"] == "" {
		t.Error("gapless serve --history has no variable")
	}
}

// TestTheHistoryOfAServerDoesNotStopABackup: the variable is for gapless serve.
func TestTheHistoryOfAServerDoesNotStopABackup(t *testing.T) {
	t.Setenv("GAPLESS_HISTORY", "1h")
	_, ready := serveInMemory(t)
	code, _, stderr := command(t, "backup", filepath.Join(t.TempDir(), "a.backup"), "--kubeconfig", ready.Kubeconfig)
	if code != exitOK || strings.Contains(stderr, "with history") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestVerifyRefusesWhatItDoesNotUse: what is checked is the file, not a state of it.
func TestVerifyRefusesWhatItDoesNotUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.backup")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for _, args := range [][]string{{"--at", "12"}, {"--bump-revision", "12"}} {
		code, _, stderr := command(t, append([]string{"restore", "--verify", file}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, "leave out "+args[0]) {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
}
