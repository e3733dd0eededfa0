//! The console page: shows what is there, escapes it, and stays small.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::world::{World, unlimited};

async fn page(client: &Client, query: &str) -> Answer {
    let mut connection = client.connect().await.unwrap();
    let answer = connection.call("GET", &format!("/{query}"), &[], "").await;
    let answer = answer.unwrap();
    assert_eq!(answer.status, 200);
    answer
}

#[tokio::test(start_paused = true)]
async fn it_shows_queues_lanes_groups_and_rows() {
    let client = World::new(unlimited()).await.client;
    for n in 0..1234 {
        client.push("orders", "10", json!(n)).await;
    }
    client.push("orders", "9", json!(1)).await;
    let row = json!([{"op": "put", "ns": "queen-kafka", "key": "qk:group:billing:orders:10",
        "value": {"offset": 1000}, "forever": true}]);
    client.post("kv", 200, row).await;
    client
        .get("pop/queue/orders?consumerGroup=workers&subscriptionMode=all&batch=5")
        .await;
    let text = page(&client, "").await.text;
    let told = |part: &str| assert!(text.contains(part), "{part} is not in {text}");
    told("<!doctype html>");
    told("1.6.0 · storage: memory");
    told("<code>orders</code>");
    told("Lanes of <code>orders</code>");
    told("data-of=\"High watermark\">1\u{202f}234</td>");
    assert!(
        text.find("<code>9</code>") < text.find("<code>10</code>"),
        "in numeric order"
    );
    told("<code>billing</code>");
    told("<span class=\"chip\">kafka</span>");
    told("<span class=\"lag\">234</span>");
    told("<code>workers</code>");
    told("<span class=\"chip\">queen</span>");
    told("<code>qk:group:billing:orders:10</code>");
    told("<code>{&quot;offset&quot;:1000}</code>");
    // Nothing is loaded from anywhere.
    for never in ["http://", "https://", "<script", "src=", "@import", "url("] {
        assert!(!text.contains(never), "{never}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_queen_says_so() {
    let client = World::default().await.client;
    let text = page(&client, "").await.text;
    assert!(text.contains("No queue here yet."));
    assert!(text.contains("No group has consumed"));
}

#[tokio::test(start_paused = true)]
async fn names_and_values_are_text_and_addresses_lead_back() {
    let client = World::new(unlimited()).await.client;
    let nasty = "<script>alert('x')</script>&\"%20 ü";
    client.push(nasty, "\"><img src=x>", json!(1)).await;
    client.push("other", "0", json!(1)).await;
    let row = json!([{"op": "put", "ns": "n", "key": "<b>k", "value": "</style><script>",
        "forever": true}]);
    client.post("kv", 200, row).await;
    let route = "pop/queue/other?consumerGroup=%3Ci%3Egroup&subscriptionMode=all";
    client.get(route).await;
    let text = page(&client, "").await.text;
    assert!(!text.contains("<script"), "{text}");
    assert!(!text.contains("<i>") && !text.contains("<b>k"), "{text}");
    assert!(text.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;%20 ü"));
    let href = text
        .split("href=\"")
        .find(|part| part.starts_with("?queue=%3Cscript"));
    let href = href.unwrap().split(['"', '#']).next().unwrap();
    let text = page(&client, href).await.text;
    assert!(text.contains("Lanes of <code>&lt;script&gt;"), "{text}");
    assert!(text.contains("&quot;&gt;&lt;img src=x&gt;"), "{text}");
    assert!(!text.contains("<img"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn thousands_of_everything_make_a_small_page_that_pages_on() {
    let client = World::new(unlimited()).await.client;
    for chunk in 0..4 {
        let items: Vec<Value> = (0..500)
            .map(|n| {
                let name = format!("queue-{:05}-{}", chunk * 500 + n, "x".repeat(200));
                json!({"queue": name, "partition": "0", "payload": 1})
            })
            .chain((0..500).map(|n| {
                json!({"queue": "wide", "partition": (chunk * 500 + n).to_string(), "payload": 1})
            }))
            .collect();
        client.post("push", 201, json!({ "items": items })).await;
    }
    for chunk in 0..8 {
        let rows: Vec<Value> = (0..250)
            .map(|n| {
                let key = format!("qk:group:group{:05}:wide:1", chunk * 250 + n);
                json!({"op": "put", "ns": "queen-kafka", "key": key, "forever": true,
                    "value": {"offset": 0, "metadata": "m".repeat(4000)}})
            })
            .collect();
        client.post("kv", 200, Value::from(rows)).await;
    }
    let mut sizes = Vec::new();
    for query in [
        "",
        "?queue=wide",
        "?queue=wide&lanes=1950",
        "?queues=50&groups=1950",
        "?queues=2000",
        "?queues=99999999999&groups=9999999999&lanes=99999999&ns=none",
    ] {
        let text = page(&client, query).await.text;
        assert!(text.len() < 256 << 10, "{query}: {} bytes", text.len());
        sizes.push(text.len());
    }
    let text = page(&client, "?queue=wide&lanes=1950").await.text;
    assert!(text.contains("<code>1999</code>") && !text.contains("<code>1949</code>"));
    assert!(!text.contains("More lanes") && text.contains("First lanes"));
    let text = page(&client, "?groups=1950").await.text;
    assert!(text.contains("<code>group01999</code>") && !text.contains("More groups"));
    // All rows can be walked.
    let (mut query, mut seen) = (String::from("?ns=queen-kafka"), 0);
    loop {
        let text = page(&client, &query).await.text;
        seen += text.matches("data-of=\"Key\"").count();
        let Some(next) = text
            .split("<a href=\"")
            .find(|part| part.contains(">More rows<"))
        else {
            break;
        };
        query = next.split(['"', '#']).next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(seen, 2000);
}

#[tokio::test(start_paused = true)]
async fn a_query_without_end_makes_no_page_without_end() {
    let client = World::new(unlimited()).await.client;
    for n in 0..60 {
        client.push(&format!("q{n}"), "0", json!(1)).await;
    }
    let query = format!("?queue={0}&ns={0}&keys={0}", "%3C".repeat(5000));
    let text = page(&client, &query).await.text;
    assert!(text.len() < 64 << 10, "{} bytes", text.len());
}
