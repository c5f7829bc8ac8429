package dropin

// apiserverTable is what becomes of the flags of kube-apiserver 1.37, and of some of older
// versions. Ignored is what changes nothing that a client of a test could rely on, or only
// makes the server refuse more. What would leave something open is refused.
func apiserverTable() table {
	t := table{}
	t.add(passed, "", `admission-control-config-file anonymous-auth? api-audiences authentication-token-webhook-cache-ttl
		authentication-token-webhook-config-file authentication-token-webhook-version authorization-webhook-cache-authorized-ttl
		authorization-webhook-cache-unauthorized-ttl authorization-webhook-config-file authorization-webhook-version
		enable-bootstrap-token-auth? oidc-ca-file oidc-client-id oidc-groups-claim oidc-groups-prefix oidc-issuer-url
		oidc-required-claim oidc-signing-algs oidc-username-claim oidc-username-prefix requestheader-allowed-names
		requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers requestheader-uid-headers
		requestheader-username-headers service-account-extend-token-expiration? service-account-max-token-expiration
		audit-log-batch-buffer-size audit-log-compress? audit-log-format audit-log-maxage audit-log-maxbackup audit-log-maxsize
		audit-log-mode audit-log-path audit-log-truncate-enabled? audit-log-truncate-max-event-size audit-policy-file
		client-ca-file default-not-ready-toleration-seconds default-unreachable-toleration-seconds
		encryption-provider-config encryption-provider-config-automatic-reload? event-ttl
		http2-max-streams-per-connection proxy-client-cert-file proxy-client-key-file
		service-account-issuer service-account-jwks-uri service-account-key-file service-account-signing-key-file
		service-cluster-ip-range service-node-port-range
		tls-cert-file tls-private-key-file token-auth-file tracing-config-file`)
	t.add(passed, "", "dashboard-listen") // kube-apiserver has no such flag: nobody gives it by chance
	t.add(handled, "", `admission-control authentication-config authorization-config authorization-mode bind-address
		cert-dir disable-admission-plugins enable-admission-plugins etcd-prefix etcd-servers max-mutating-requests-inflight
		max-requests-inflight secure-port tls-min-version v`)
	t.network()
	t.storage()
	t.identities()
	t.operation()
	return t
}

// network are the flags about connections.
func (t table) network() {
	t.add(ignored, "the service kubernetes has the address that the server listens on",
		"advertise-address endpoint-reconciler-type external-hostname")
	t.add(ignored, "the service kubernetes has no node port", "kubernetes-service-node-port")
	t.add(ignored, "browsers of other sites are not answered", "cors-allowed-origins strict-transport-security-directives")
	t.add(ignored, "a port is not shared", "permit-address-sharing? permit-port-sharing?")
	t.add(ignored, "both versions of HTTP are served", "disable-http2-serving? goaway-chance")
	t.add(ignored, "connections have the server's own limits: docs/limits.md",
		"max-connection-bytes-per-sec request-timeout min-request-timeout")
	t.add(ignored, "there is no port without TLS", "insecure-port insecure-bind-address")
	t.add(ignored, "there is no kubelet to talk to", `kubelet-certificate-authority kubelet-client-certificate kubelet-client-key
		kubelet-preferred-address-types kubelet-timeout kubelet-https? kubelet-port kubelet-read-only-port`)
	t.add(ignored, "redirects of aggregated API servers are always refused", "aggregator-reject-forwarding-redirect?")
	t.add(ignored, "there is no cluster network: aggregated API servers are reached at their endpoints",
		"enable-aggregator-routing?")
	t.add(ignored, "there are no other API servers beside it",
		"peer-advertise-ip peer-advertise-port peer-ca-file apiserver-count")
	t.add(refused, "webhooks are called directly", "egress-selector-config-file")
	t.add(refused, "TLS is Go's default, from version 1.2", "tls-cipher-suites tls-curve-preferences")
	t.add(refused, "there is one serving certificate (--tls-cert-file)", "tls-sni-cert-key")
}

// storage are the flags about etcd and the cache.
func (t table) storage() {
	t.add(refused, "the etcd beside this program speaks HTTP without TLS, and only tells where the objects are kept",
		"etcd-cafile etcd-certfile etcd-keyfile")
	t.add(refused, "all objects are kept in one place", "etcd-servers-overrides")
	t.add(ignored, "the objects are not kept in an etcd", `etcd-compaction-interval etcd-count-metric-poll-period
		etcd-db-metric-poll-interval etcd-healthcheck-timeout etcd-readycheck-timeout lease-reuse-duration-seconds storage-backend
		storage-initialization-timeout storage-media-type`)
	t.add(ignored, "the watch cache is always there and adapts its size",
		"watch-cache? watch-cache-sizes default-watch-cache-size")
}

// identities are the flags about who is calling, what they may do, and what is recorded.
func (t table) identities() {
	t.add(refused, "there are no passwords", "basic-auth-file")
	t.add(refused, "there is no authorizer ABAC", "authorization-policy-file")
	t.add(refused, "service account tokens are signed with a key in a file", "service-account-signing-endpoint")
	t.add(ignored, "tokens of service accounts that are gone are always refused", "service-account-lookup?")
	t.add(refused, "audit events are written to a file only (--audit-log-path)", "audit-webhook-config-file")
	t.add(ignored, "there is no webhook for audit events", `audit-webhook-batch-buffer-size audit-webhook-batch-max-size
		audit-webhook-batch-max-wait audit-webhook-batch-throttle-burst audit-webhook-batch-throttle-enable?
		audit-webhook-batch-throttle-qps audit-webhook-initial-backoff audit-webhook-mode audit-webhook-truncate-enabled?
		audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size audit-webhook-version`)
	t.add(ignored, "audit events are written one by one, as audit.k8s.io/v1", `audit-log-batch-max-size audit-log-batch-max-wait
		audit-log-batch-throttle-burst audit-log-batch-throttle-enable? audit-log-batch-throttle-qps
		audit-log-truncate-max-batch-size audit-log-version`)
}

// operation are the other flags.
func (t table) operation() {
	t.add(ignored, "there are no feature gates", `feature-gates emulated-version emulation-forward-compatible?
		min-compatibility-version`)
	t.add(ignored, "the served APIs are fixed", "runtime-config runtime-config-emulation-forward-compatible?")
	t.add(ignored, "pods do not run here, privileged ones neither", "allow-privileged?")
	t.add(ignored, "no controllers run here, as with kube-apiserver alone", `enable-garbage-collector? delete-collection-workers
		coordinated-leadership-lease-duration coordinated-leadership-renew-deadline coordinated-leadership-retry-period`)
	t.add(ignored, "requests have the server's own shares: docs/limits.md", "enable-priority-and-fairness?")
	t.add(ignored, "the server stops at once", `shutdown-delay-duration shutdown-send-retry-after?
		shutdown-watch-termination-grace-period livez-grace-period`)
	t.add(ignored, "the log has a format of its own; -v=4 and more logs requests", `vmodule logging-format log-flush-frequency
		log-json-info-buffer-size log-json-split-stream? log-text-info-buffer-size log-text-split-stream? logtostderr?
		alsologtostderr? stderrthreshold log-dir log-file enable-logs-handler?`)
	t.add(ignored, "metrics are those of gapless", `allow-metric-labels allow-metric-labels-manifest disabled-metrics
		show-hidden-metrics-for-version`)
	t.add(ignored, "there is no profiling", "profiling? contention-profiling? debug-socket-path")
}
