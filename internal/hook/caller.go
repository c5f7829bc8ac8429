package hook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/tracing"
)

const (
	// retries is how often a call is repeated for an answer with Retry-After: client-go
	// rest.Request maxRetries.
	retries = 10
	// maxText is how much of an answer an error quotes: client-go
	// rest.maxUnstructuredResponseTextBytes.
	maxText = 2048
	// idle is how many connections to a webhook are kept while they are not in use: client-go
	// transport.idleConnsPerHost.
	idle = 25
)

// Caller posts to one webhook. It is safe for concurrent use.
type Caller struct {
	at          url.URL
	client      *http.Client
	connections *http.Transport
	slots       chan struct{} // holds one token for each call under way
	limit       int           // of an answer, in bytes
	broken      error         // of a configuration that cannot be used
	passing     bool          // broken may pass: it is a file that cannot be read now
}

func newCaller(cfg Config, w *kinds.Webhook) *Caller {
	k := &Caller{slots: make(chan struct{}, cfg.Concurrent), limit: cfg.MaxAnswer}
	dial := (&net.Dialer{}).DialContext
	connections := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: idle, IdleConnTimeout: 90 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	k.client, k.connections = &http.Client{Transport: connections}, connections
	if !cfg.Redirects {
		k.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	if ca := bytes.TrimSpace(w.CABundle); len(ca) > 0 {
		connections.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !connections.TLSClientConfig.RootCAs.AppendCertsFromPEM(ca) {
			k.broken = errors.New("unable to load root certificates: unable to parse bytes as PEM block")
			return k
		}
	}
	if s := w.Service; s != nil {
		name := s.Name + "." + s.Namespace + ".svc"
		k.at = location("https", net.JoinHostPort(name, strconv.Itoa(int(s.Port))), s.Path)
		connections.Proxy = nil
		connections.TLSClientConfig.ServerName = name
		connections.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == k.at.Host {
				var err error
				if addr, err = Resolve(cfg.Cluster, s); err != nil {
					return nil, err
				}
			}
			return dial(ctx, network, addr)
		}
		k.show(cfg.Credentials, k.at.Host)
		return k
	}
	given, err := url.Parse(w.URL)
	if err != nil {
		k.broken = fmt.Errorf("unparsable URL: %w", err)
		return k
	}
	k.at = location(given.Scheme, given.Host, given.Path)
	// Others may be several servers behind one address, which one connection with HTTP/2 would
	// not share the calls between (apiserver util/webhook/client.go, kubernetes issue 75791).
	connections.ForceAttemptHTTP2 = isLocal(given.Hostname())
	host := given.Host
	if given.Port() == "" {
		host = net.JoinHostPort(given.Hostname(), "443")
	}
	k.show(cfg.Credentials, host)
	return k
}

// show lets the webhook see the credentials for its host and port. Files of certificates and of tokens are read again when
// they change (client-go transport).
func (k *Caller) show(credentials Credentials, host string) {
	if credentials == nil {
		return
	}
	config, err := credentials(host)
	if err == nil {
		config.UserAgent = "" // it is given
		k.client.Transport, err = authenticated(config, k.connections)
	}
	if err != nil {
		k.broken, k.passing = err, true
	}
}

// authenticated returns what sends requests over connections with the credentials of a configuration.
func authenticated(config *rest.Config, connections *http.Transport) (http.RoundTripper, error) {
	how, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	shown, err := transport.TLSConfigFor(how)
	if err != nil {
		return nil, err
	}
	if shown != nil {
		connections.TLSClientConfig.GetClientCertificate = shown.GetClientCertificate
	}
	return transport.HTTPWrappersForConfig(how, connections)
}

// location returns where a webhook is called. Its path is cleaned, and has no slash at its end:
// client-go rest.NewRequest. Without this a server may answer with a redirect; envtest writes
// https://host//path.
func location(scheme, host, given string) url.URL {
	return url.URL{Scheme: scheme, Host: host, Path: path.Join("/", given)}
}

// isLocal reports whether a host is this one.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// urlFor returns where a call is posted to. The webhook learns how long it may take, in
// seconds, rounded up.
func (k *Caller) urlFor(ctx context.Context) string {
	at := k.at
	if end, has := ctx.Deadline(); has {
		if left := time.Until(end); left > 0 {
			whole := (left + time.Second - 1).Truncate(time.Second)
			at.RawQuery = url.Values{"timeout": {whole.String()}}.Encode()
		}
	}
	return at.String()
}

// Post returns the body of the answer to a JSON body. It waits for a place, and no longer than
// ctx. Errors: *apierrors.StatusError for an answer with another code than 2xx, *TooLargeError,
// those of net/http.
func (k *Caller) Post(ctx context.Context, body []byte) ([]byte, error) {
	if k.broken != nil {
		return nil, k.broken
	}
	at := k.urlFor(ctx)
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for %d other calls of this webhook: %w", cap(k.slots), context.Cause(ctx))
	}
	for attempt := 0; ; attempt++ {
		answer, after, err := k.once(ctx, at, body)
		if after < 0 || attempt == retries {
			return answer, err
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// once posts a body. after is not negative when the webhook asks to repeat it.
func (k *Caller) once(ctx context.Context, at string, body []byte) (answer []byte, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return nil, -1, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("User-Agent", "gapless")
	_, span := tracing.Client(ctx, http.MethodPost, k.at.Host, req.Header)
	defer func() { span.End(err) }()
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, -1, err
	}
	span.Answered(resp.StatusCode)
	defer func() { _ = resp.Body.Close() }() // it was read, or is not wanted
	answer, err = io.ReadAll(io.LimitReader(resp.Body, int64(k.limit)+1))
	if gone := ctx.Err(); gone != nil {
		// A webhook that answers because the connection is closed may still be heard.
		return nil, -1, &url.Error{Op: "Post", URL: at, Err: gone}
	}
	switch {
	case err != nil:
		return nil, -1, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	case len(answer) > k.limit:
		return nil, -1, &TooLargeError{Limit: k.limit}
	case resp.StatusCode >= 200 && resp.StatusCode <= 206:
		return answer, -1, nil
	}
	after = -1
	seconds, noNumber := strconv.Atoi(resp.Header.Get("Retry-After"))
	if noNumber == nil && seconds >= 0 && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode/100 == 5) {
		after = time.Duration(seconds) * time.Second
	}
	return nil, after, refusal(resp, answer, max(seconds, 0))
}

// refusal is the error for an answer with another code than 2xx: the Status in it, or a
// generic one (client-go rest.Result.Error).
func refusal(resp *http.Response, answer []byte, seconds int) error {
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Kind == "Status" && status.APIVersion == "v1" &&
		status.Status != metav1.StatusSuccess {
		return &apierrors.StatusError{ErrStatus: status}
	}
	text := "unknown"
	given := resp.Header.Get("Content-Type")
	if form, _, err := mime.ParseMediaType(given); given == "" || err == nil && strings.HasPrefix(form, "text/") {
		text = strings.TrimSpace(string(answer[:min(len(answer), maxText)]))
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, kinds.GroupResource{}, "", text, seconds, true)
}
