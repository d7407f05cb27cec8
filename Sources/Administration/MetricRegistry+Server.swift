import PandoMetrics

extension MetricRegistry {
    /// All metrics of a server, by the names under which monitoring reads them. `public/docs/operating.md`
    /// has the table.
    init(of metrics: ServerMetrics) {
        self.init(
            ProcessMetricFamilies(metrics: metrics).all + ClientMetricFamilies(metrics: metrics).all
                + StorageMetricFamilies(metrics: metrics).all + BackupMetricFamilies(metrics: metrics).all)
    }
}
