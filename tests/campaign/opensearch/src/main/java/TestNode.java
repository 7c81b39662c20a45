import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** One node of OpenSearch with its HTTP interface on 127.0.0.1. Arguments: its folder, its HTTP port. */
public class TestNode extends Node {
  private TestNode(Settings settings) {
    super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "test"),
        List.of(Netty4Plugin.class), false);
  }

  public static void main(String[] arguments) throws Exception {
    Settings settings = Settings.builder()
        .put("path.home", arguments[0])
        .put("http.port", arguments[1])
        .put("transport.port", "0")
        .put("network.host", "127.0.0.1")
        .put("http.type", "netty4")
        .put("transport.type", "netty4")
        .put("discovery.type", "single-node")
        .put("cluster.routing.allocation.disk.threshold_enabled", false)
        .build();
    new TestNode(settings).start();
    Thread.sleep(Long.MAX_VALUE);
  }
}
