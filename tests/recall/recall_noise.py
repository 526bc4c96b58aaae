"""What people ask an assistant all day and nobody needs to remember: none of it says anything about who asks."""

from __future__ import annotations

import random
from collections.abc import Iterator

Exchange = tuple[str, str]

_ZH: tuple[Exchange, ...] = (
    ("{city}今天天气怎么样？", "{city}多云，{number}度左右。"),
    ("{city}到{other_city}的高铁大概多久？", "大约{number}个小时，以当天时刻表为准。"),
    ("帮我把“{line}”翻译成英文。", "译文如下，语气偏书面。"),
    ("“{word}”是什么意思？", "“{word}”一般用来形容一种状态，常见于书面语。"),
    ("{dish}怎么做才好吃？", "先焯水，再小火慢炖{number}分钟。"),
    ("{dish}和{other_dish}哪个热量高？", "一般来说{dish}略高一些。"),
    ("{thing}哪个牌子口碑好？", "可以看看销量前三的，价格差别不大。"),
    ("{thing}坏了能修吗？", "先看保修期，多数情况下可以修。"),
    ("Python 里{code}怎么写？", "可以用标准库，示例如下。"),
    ("这个报错是什么原因：{error}", "通常是参数或者路径不对，先检查输入。"),
    ("{number}的平方根是多少？", "约等于{number}的二分之一次方，可以用计算器验证。"),
    ("{person}是哪个朝代的人？", "史书里有记载，可以查阅列传。"),
    ("{film}讲的是什么故事？", "讲的是一群人在困境里互相扶持的故事。"),
    ("给{shop}想一个名字。", "可以叫“半亩”“闲庭”或者“拾光”。"),
    ("写一句{festival}的祝福语。", "愿你所愿皆如愿。"),
    ("把这句话改得正式一点：{line}", "修改后更适合邮件使用。"),
    ("{word}的近义词有哪些？", "可以用“从容”“平和”等。"),
    ("一英里等于多少公里？", "约 1.609 公里。"),
    ("外面的{weather}真大。", "注意安全。"),
    ("{city}的地铁几点停运？", "大多数线路二十三点前后收车。"),
    ("为什么{why}？", "简单来说，是物理和环境共同作用的结果。"),
    ("讲一个关于{thing}的小知识。", "它最早出现在一百多年前。"),
    ("{thing}的英文怎么说？", "要看具体语境。"),
    ("把上面那段缩短到{number}个字。", "已缩短。"),
    ("谢谢", "不客气。"),
    ("继续", "好的，下面接着说。"),
    ("再来一个版本", "换一种写法如下。"),
)
_EN: tuple[Exchange, ...] = (
    ("What's the weather like in {city} today?", "Cloudy, around {number} degrees."),
    ("How long is the train from {city} to {other_city}?", "About {number} hours, depending on the connection."),
    ("Translate this into French: {line}", "Here is the translation, in a neutral tone."),
    ("What does {word} mean?", "It describes a state of mind, mostly in writing."),
    ("How do you make {dish}?", "Simmer it gently for {number} minutes."),
    ("Which has more calories, {dish} or {other_dish}?", "Usually {dish}, by a little."),
    ("Which brand makes a decent {thing}?", "The three best sellers are close in quality."),
    ("Can a broken {thing} be repaired?", "In most cases, check the warranty first."),
    ("How do I {code} in Python?", "The standard library has it; here is an example."),
    ("Why do I get this error: {error}", "Usually a wrong argument or path."),
    ("What's the square root of {number}?", "A little more than half of it, roughly speaking."),
    ("Who was {person}?", "A figure of the nineteenth century; encyclopedias have the details."),
    ("What is {film} about?", "About people who help each other through hard times."),
    ("Suggest a name for {shop}.", "How about Northlight, Harbor or Second Cup?"),
    ("Write one line of greetings for {festival}.", "May it be a bright one."),
    ("Make this sound more formal: {line}", "Here is a version for an email."),
    ("Give me synonyms for {word}.", "Calm, composed, unhurried."),
    ("How many kilometres are in a mile?", "About 1.609."),
    ("That {weather} outside is something.", "Stay safe."),
    ("When does the subway close in {city}?", "Around midnight on most lines."),
    ("Why {why}?", "In short, it is physics and environment together."),
    ("Tell me a fun fact about a {thing}.", "The first one was made more than a century ago."),
    ("What's the Spanish word for {thing}?", "That depends on the region."),
    ("Shorten the text above to {number} words.", "Done."),
    ("Thanks", "You're welcome."),
    ("Go on", "Sure, continuing below."),
    ("Give me another version", "Here is a different take."),
)
_ZH_FILL = {
    "city": ["西安", "长沙", "青岛", "昆明", "厦门", "哈尔滨", "武汉", "拉萨", "洛阳", "桂林"],
    "line": [
        "会议改到下午两点",
        "请查收附件",
        "样品已经寄出",
        "这条路正在施工",
        "系统将于今晚维护",
        "欢迎新老顾客光临",
    ],
    "word": ["踟蹰", "斑驳", "氤氲", "踌躇", "缱绻", "逶迤", "恬淡", "蹉跎"],
    "dish": ["红烧肉", "番茄炒蛋", "麻婆豆腐", "清蒸鲈鱼", "土豆丝", "糖醋排骨", "蛋炒饭", "罗宋汤"],
    "thing": ["电饭煲", "路由器", "台灯", "行李箱", "保温杯", "吸尘器", "键盘", "雨伞", "充电宝", "投影仪"],
    "code": ["读取 CSV", "合并两个字典", "去重并保持顺序", "解析 JSON", "计算文件哈希", "按日期排序"],
    "error": ["KeyError: 'name'", "FileNotFoundError", "TypeError: unhashable type", "IndexError: list index"],
    "person": ["王维", "祖冲之", "辛弃疾", "沈括", "李清照", "徐霞客"],
    "film": ["《霸王别姬》", "《饮食男女》", "《活着》", "《大话西游》", "《阳光灿烂的日子》"],
    "shop": ["一家书店", "一家花店", "一个播客", "一支球队", "一款小程序"],
    "festival": ["端午节", "中秋节", "元宵节", "重阳节", "教师节"],
    "weather": ["雨", "风", "雾", "太阳"],
    "why": ["天空是蓝色的", "海水是咸的", "冬天手机掉电快", "面包会发霉", "飞机窗户是圆角的", "猫喜欢纸箱"],
}
_EN_FILL = {
    "city": ["Prague", "Oslo", "Seville", "Lyon", "Quito", "Perth", "Kyoto", "Dublin", "Tallinn", "Porto"],
    "line": ["The meeting moved to two", "Please find the file attached", "The samples have been sent",
             "This road is closed", "The system is down tonight", "The shop opens at nine"],
    "word": ["ephemeral", "laconic", "serendipity", "ubiquitous", "candid", "meticulous", "austere", "wistful"],
    "dish": ["ramen", "shakshuka", "risotto", "beef stew", "pancakes", "pad thai", "goulash", "paella"],
    "thing": ["kettle", "router", "lamp", "suitcase", "thermos", "vacuum", "keyboard", "umbrella", "charger", "radio"],
    "code": ["read a CSV file", "merge two dicts", "remove duplicates", "parse JSON", "hash a file", "sort by date"],
    "error": ["KeyError: 'name'", "FileNotFoundError", "TypeError: unhashable type", "IndexError: list index"],
    "person": ["Ada Lovelace", "Gregor Mendel", "Mary Anning", "Nikola Tesla", "Emily Dickinson"],
    "film": ["Casablanca", "Spirited Away", "The Third Man", "Amelie", "Paris, Texas"],
    "shop": ["a bookshop", "a flower shop", "a podcast", "a chess club", "a small app"],
    "festival": ["Easter", "Halloween", "Thanksgiving", "Labor Day", "Midsummer"],
    "weather": ["rain", "wind", "fog", "sunshine"],
    "why": ["is the sky blue", "is sea water salty", "do phones die faster in winter", "does bread go stale",
            "are plane windows round", "do cats like boxes"],
}  # fmt: skip


def exchanges(language: str, seed: str) -> Iterator[Exchange]:
    """Without end, the same for the same seed."""
    rng = random.Random(seed)
    templates, fill = (_ZH, _ZH_FILL) if language == "zh" else (_EN, _EN_FILL)
    while True:
        chosen = {name: rng.sample(words, 2) for name, words in fill.items()}
        values = {name: pair[0] for name, pair in chosen.items()}
        values |= {f"other_{name}": chosen[name][1] for name in ("city", "dish")} | {"number": str(rng.randint(2, 90))}
        asked, answered = rng.choice(templates)
        yield asked.format(**values), answered.format(**values)
