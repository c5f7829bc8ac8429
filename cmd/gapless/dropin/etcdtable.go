package dropin

// etcdTable is what becomes of the flags of etcd 3.6.
func etcdTable() table {
	t := table{}
	t.add(handled, "", "data-dir listen-client-urls name unsafe-no-fsync?")
	t.add(ignored, "clients know it by the URL that it listens on", "advertise-client-urls discovery-srv discovery-srv-name")
	t.add(ignored, "there are no other members", `initial-advertise-peer-urls initial-cluster initial-cluster-state
		initial-cluster-token initial-election-tick-advance? listen-peer-urls heartbeat-interval election-timeout pre-vote?
		strict-reconfig-check? force-new-cluster? snapshot-count max-snapshots max-wals wal-dir enable-v2?`)
	t.add(ignored, "it keeps nothing itself: gapless has limits and a history of its own", `auto-compaction-mode
		auto-compaction-retention backend-batch-interval backend-batch-limit backend-bbolt-freelist-type quota-backend-bytes
		max-request-bytes max-txn-ops max-concurrent-streams compaction-batch-limit watch-progress-notify-interval
		experimental-watch-progress-notify-interval experimental-initial-corrupt-check? experimental-corrupt-check-time`)
	t.add(ignored, "it logs what it does with its flags", "log-level log-format log-outputs logger debug? log-package-levels")
	t.add(ignored, "it has no metrics and no tracing", `metrics listen-metrics-urls enable-pprof?
		experimental-enable-distributed-tracing? experimental-distributed-tracing-address
		experimental-distributed-tracing-sampling-rate enable-distributed-tracing? distributed-tracing-address
		distributed-tracing-sampling-rate`)
	t.add(ignored, "nothing is forwarded and no gateway is there",
		"proxy enable-grpc-gateway? grpc-keepalive-interval grpc-keepalive-timeout grpc-keepalive-min-time")
	t.add(refused, "it speaks HTTP without TLS, and only tells where the objects are kept", `cert-file key-file trusted-ca-file
		client-cert-auth? client-crl-file client-cert-allowed-hostname auto-tls? peer-cert-file peer-key-file
		peer-trusted-ca-file peer-client-cert-auth? peer-auto-tls? cipher-suites tls-min-version tls-max-version`)
	t.add(refused, "flags are read from the command line only", "config-file")
	return t
}
