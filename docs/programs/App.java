import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

public class App {
    static final List<ByteBuffer> kept = new ArrayList<>();

    static void hold(int bytes) {
        kept.add(ByteBuffer.allocateDirect(bytes));
    }

    public static void main(String[] words) {
        for (int i = 0; i < 100000; i++) hold(200);
        System.out.println(kept.size());
    }
}
