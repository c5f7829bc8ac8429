package dropin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

const (
	// waitForEtcd is how long kube-apiserver waits for etcd to listen: as long as envtest
	// waits for kube-apiserver.
	waitForEtcd = 20 * time.Second
	// askEvery is how often it looks.
	askEvery = 20 * time.Millisecond
	// mostAnswer bounds what it reads of an answer, in bytes.
	mostAnswer = 64 << 10
)

// defaultPrefix is the default of --etcd-prefix.
const defaultPrefix = "/registry"

// askEtcd asks the etcd of --etcd-servers where the objects are kept. It waits until it
// listens.
func askEtcd(ctx context.Context, servers []string) (place, error) {
	if len(servers) != 1 {
		return place{}, fmt.Errorf(
			"--etcd-servers has %d URLs, want one: that of the etcd that gapless envtest install has put beside this program",
			len(servers))
	}
	u, err := url.Parse(servers[0])
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return place{}, fmt.Errorf("--etcd-servers=%s: want a URL like http://127.0.0.1:2379", servers[0])
	}
	limited, stop := context.WithTimeoutCause(ctx, waitForEtcd, fmt.Errorf("it did not answer for %v", waitForEtcd))
	defer stop()
	client := &http.Client{Transport: &http.Transport{}} // of no proxy, as etcd's client
	defer client.CloseIdleConnections()
	for {
		at, err := ask(limited, client, u.JoinPath(placePath).String())
		if err == nil {
			return at, nil
		}
		if wrong, is := errors.AsType[*notOurs](err); is {
			return place{}, fmt.Errorf(
				"--etcd-servers=%s is not the etcd of gapless envtest install (%s): gapless keeps objects itself, below the "+
					"directory of the etcd beside it, and cannot keep them in another one; start that etcd, or use "+
					"upstream's kube-apiserver too",
				servers[0], wrong.said)
		}
		select {
		case <-limited.Done():
			return place{}, fmt.Errorf("ask --etcd-servers=%s: %w: %w", servers[0], context.Cause(limited), err)
		case <-time.After(askEvery):
		}
	}
}

// notOurs is the answer of another program.
type notOurs struct{ said string }

func (e *notOurs) Error() string { return e.said }

func ask(ctx context.Context, client *http.Client, address string) (at place, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return at, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return at, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return at, err
	}
	if resp.StatusCode != http.StatusOK {
		return at, &notOurs{said: "it answers " + resp.Status}
	}
	return readPlace(body)
}

// readPlace reads etcd's answer.
func readPlace(body []byte) (at place, err error) {
	if err := json.Unmarshal(body, &at); err != nil || !filepath.IsAbs(at.DataDir) {
		return place{}, &notOurs{said: "it answers something else"}
	}
	return at, nil
}

// directory is where the objects with a prefix in etcd are kept. The default one has a plain
// name, and others never share it.
func (at place) directory(prefix string) (string, error) {
	prefix = "/" + strings.Trim(prefix, "/")
	if prefix == defaultPrefix {
		return filepath.Join(at.DataDir, "gapless"), nil
	}
	name := "gapless-" + url.QueryEscape(prefix[1:])
	if len(name) > 255 { // the longest name of a file
		return "", fmt.Errorf("--etcd-prefix=%s is too long for the name of a directory", prefix)
	}
	return filepath.Join(at.DataDir, name), nil
}
