package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gapless-io/gapless/compat/harness"
)

// laptop is a running examples/replicas.
type laptop struct {
	dir string
	cmd *exec.Cmd
	out harness.Printed
}

// startLaptop builds examples/replicas with what it runs, and starts it. It ends with the test.
func startLaptop(t *testing.T) *laptop {
	t.Helper()
	l := &laptop{dir: filepath.Join(t.TempDir(), "data")}
	build := func(module, pkg string) string {
		program, err := harness.Build(t.Context(), t.TempDir(), module, pkg)
		if err != nil {
			t.Fatalf("build what the example needs: %v", err)
		}
		return program
	}
	etcd := os.Getenv("TEST_ETCD") // as in the other tests
	if etcd == "" {
		etcd = build(filepath.Join(harness.Root(), "compat", "suites"), "etcd")
	}
	// Not to end with the test's context: stop interrupts it, and waits.
	l.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), build(harness.Root(), "examples/replicas"),
		"-dir", l.dir, "-listen", "127.0.0.1:0", "-etcd", etcd, "-gapless", harness.Program(t))
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	if err := l.cmd.Start(); err != nil {
		t.Fatalf("start the example: %v", err)
	}
	t.Cleanup(func() {
		l.stop(t)
		if t.Failed() {
			t.Logf("output of the example:\n%s", l.out.String())
		}
	})
	harness.Eventually(t, "the example says what to try", func() bool {
		return strings.Contains(l.out.String(), "Ctrl-C ends them all")
	})
	return l
}

// stop interrupts it as Ctrl-C does. It may be called again.
func (l *laptop) stop(t *testing.T) {
	t.Helper()
	if l.cmd.ProcessState != nil {
		return
	}
	if err := l.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("interrupt the example: %v", err)
	}
	if err := l.cmd.Wait(); err != nil {
		t.Errorf("the example ended with %v", err)
	}
}

// pid is the number of one of its processes.
func (l *laptop) pid(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, name+".pid"))
	if err != nil {
		t.Fatalf("read the number of %s: %v", name, err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatalf("read the number of %s: %v", name, err)
	}
	return pid
}

// TestAWatchGoesOnWhereverTheLaptopsProcessesAreKilled: each replica and a member of etcd, one after the other. What
// the example has started ends with it.
func TestAWatchGoesOnWhereverTheLaptopsProcessesAreKilled(t *testing.T) {
	l := startLaptop(t)
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(l.dir, "kubeconfig"))
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	configMaps := clientOf(t, cfg).CoreV1().ConfigMaps("default")
	list, err := configMaps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list through the balancer: %v", err)
	}
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return configMaps.Watch(ctx, o)
		},
	})
	if err != nil {
		t.Fatalf("watch through the balancer: %v", err)
	}
	defer func() { <-w.Done() }()
	defer w.Stop()
	names := []string{"replica-1", "etcd-1", "replica-2", "replica-3"}
	started := map[string]int{}
	for i, name := range names {
		started[name] = l.pid(t, name)
		if err := syscall.Kill(started[name], syscall.SIGKILL); err != nil {
			t.Fatalf("kill %s: %v", name, err)
		}
		made := fmt.Sprint("made-", i)
		harness.Eventually(t, "a write is taken after "+name+" was killed", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := configMaps.Create(ctx, configMap(made, ""), metav1.CreateOptions{})
			if err == nil {
				return true
			}
			_, err = configMaps.Get(ctx, made, metav1.GetOptions{}) // one without an answer may have been taken
			return err == nil
		})
		if e := next(t, w); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != made {
			t.Fatalf("after %s was killed the watch has %s of %v, want the creation of %s", name, e.Type, e.Object, made)
		}
		harness.Eventually(t, name+" is started again", func() bool { return l.pid(t, name) != started[name] })
	}
	var pids []int
	for i := range 3 {
		pids = append(pids, l.pid(t, fmt.Sprint("etcd-", i+1)), l.pid(t, fmt.Sprint("replica-", i+1)))
	}
	l.stop(t)
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the process %d is left: %v", pid, err)
		}
	}
}
