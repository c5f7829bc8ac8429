package etcd

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// programVar names the program that is etcd.
const programVar = "TEST_ETCD"

// askEvery is how often a program is asked whether it serves.
const askEvery = 20 * time.Millisecond

// startProgram starts the program that the environment names.
func startProgram(ctx context.Context, options Options) (*Member, error) {
	client, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	peer, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--name=oracle", "--data-dir=" + filepath.Join(options.Dir, "etcd"), "--log-level=error",
		"--listen-client-urls=http://" + client, "--advertise-client-urls=http://" + client,
		"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://" + peer,
		"--initial-cluster=oracle=http://" + peer, "--unsafe-no-fsync=" + strconv.FormatBool(options.NoSync),
		"--quota-backend-bytes=" + strconv.FormatInt(options.QuotaBytes, 10),
	}
	if options.MaxRequestBytes > 0 {
		args = append(args, fmt.Sprint("--max-request-bytes=", options.MaxRequestBytes))
	}
	if options.Token != "" {
		args = append(args, "--initial-cluster-token="+options.Token)
	}
	// Not to end with ctx, which bounds the start: end ends it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), os.Getenv(programVar), args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	ended := make(chan struct{})
	go func() { // it ends with the program
		_ = cmd.Wait() // said has why
		close(ended)
	}()
	end := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-ended
	}
	for !healthy(ctx, "http://"+client) {
		select {
		case <-time.After(askEvery):
		case <-ended:
			return nil, fmt.Errorf("etcd has ended: %s", &said)
		case <-ctx.Done():
			end()
			return nil, fmt.Errorf("wait for etcd: %w: %s", context.Cause(ctx), &said)
		}
	}
	return &Member{url: "http://" + client, end: end}, nil
}

// healthy reports whether a member serves.
func healthy(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", http.NoBody)
	if err != nil {
		return false
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // the code says all
	return resp.StatusCode == http.StatusOK
}

// freeAddress returns an address of this machine that nothing listens on.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
