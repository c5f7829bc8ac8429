//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// writeKubeconfig writes the administrator's kubeconfig, with the balancer as the server.
func (c *cluster) writeKubeconfig() error {
	text, err := os.ReadFile(filepath.Join(c.dir, c.replicas[0].name, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("read the kubeconfig of a replica: %w", err)
	}
	own, balancer := "https://"+c.balancer.servers[0], "https://"+c.balancer.listener.Addr().String()
	if !strings.Contains(string(text), own) {
		return fmt.Errorf("the kubeconfig of %s does not name %s", c.replicas[0].name, own)
	}
	if err := os.WriteFile(c.kubeconfig(), []byte(strings.ReplaceAll(string(text), own, balancer)), 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}

// explain prints what to try.
func (c *cluster) explain(out io.Writer) {
	_, _ = fmt.Fprintf(out, `
Three replicas serve at https://%[1]s. In another terminal, a watch to be left running:

  export KUBECONFIG=%[2]s
  %[3]s watch configmaps

In a third one, with the same KUBECONFIG: kill a replica (the watch resumes at another one), and a member of etcd (two
of three are a majority), and write after each.

  kill -9 $(cat %[4]s/replica-1.pid)
  kubectl create configmap one
  kill -9 $(cat %[4]s/etcd-1.pid)
  kubectl create configmap two

The members, the replicas, and how far each is:

  %[3]s status

What is killed is started again after %[5]v. kubectl get -w goes on without a member of etcd, and ends with its
replica, as with every API server. The output of each process is in %[4]s/*.log. Ctrl-C ends them all.
`, c.balancer.listener.Addr(), c.kubeconfig(), c.replicas[0].program, c.dir, restartAfter)
}
